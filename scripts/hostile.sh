#!/bin/sh
# Runs an engine on a disk that misbehaves at random times, for MINUTES, on seeds from SEED on (a new
# place each day unless given). Needs root and /dev/fuse. Stops at the first broken promise, with the
# command that draws the same trouble again; the files are then left in target/hostile.
set -eu
cd "$(dirname "$0")/.."
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 MINUTES [SEED]" >&2
    exit 2
fi
seed=${2:-$(($(date +%s) * 1000))}
mkdir -p target/hostile
echo "seeds from $seed on, for $1 minutes"
exec cargo run --release --locked -q -p corelog-crash --bin corelog-hostile -- \
    --dir target/hostile --minutes "$1" --seed "$seed"
