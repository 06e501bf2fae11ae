#!/bin/sh
# Cuts the power of ext4 and XFS under an engine for MINUTES, on seeds from SEED on (a new place each
# day unless given). Needs root. Stops at the first broken promise, with the command that judges the
# same image again; the image stays in target/powercut.
set -eu
cd "$(dirname "$0")/.."
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 MINUTES [SEED]" >&2
    exit 2
fi
seed=${2:-$(($(date +%s) * 1000))}
echo "seeds from $seed on, for $1 minutes"
exec cargo run --release --locked -q -p corelog-crash --bin corelog-powercut -- \
    run --minutes "$1" --seed "$seed"
