#!/bin/sh
# Harms data directories that the engine wrote, one thing at a time, and holds it to its promises:
# drawn cases for MINUTES, of a new seed each time unless SEED is given, or "every" case there is
# (tens of thousands, some hours). Stops at the first broken promise, with the case that replays it;
# the data is then left in target/rot.
set -eu
cd "$(dirname "$0")/.."
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 MINUTES|every [SEED]" >&2
    exit 2
fi
case $1 in
    every) howlong="--every" ;;
    *) howlong="--minutes $1" ;;
esac
seed=${2:-$(($(date +%s) * 1000))}
# On the repository's own file system: O_DIRECT needs a real one.
mkdir -p target/rot
echo "seed $seed: $howlong"
# shellcheck disable=SC2086 # an option and its value
exec cargo run --release --locked -q -p corelog-crash --bin corelog-rot -- \
    --dir target/rot --seed "$seed" $howlong
