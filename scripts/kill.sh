#!/bin/sh
# Kills a process that appends, again and again: ROUNDS times, or for MINUTES with the unit m ("30m").
# New seeds each time unless SEED is given. Stops at the first broken promise, with the command that
# replays it; the data and all that was said are then left in target/kill.
set -eu
cd "$(dirname "$0")/.."
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 ROUNDS|MINUTESm [SEED]" >&2
    exit 2
fi
case $1 in
    *m) howlong="--minutes ${1%m}" ;;
    *) howlong="--rounds $1" ;;
esac
seed=${2:-$(($(date +%s) * 1000))}
# On the repository's own file system: O_DIRECT needs a real one.
mkdir -p target/kill
echo "seeds from $seed on: $howlong"
# shellcheck disable=SC2086 # an option and its value
exec cargo run --release --locked -q -p corelog-crash --bin corelog-kill -- \
    --dir target/kill --copies --seed "$seed" $howlong
