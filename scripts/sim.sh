#!/bin/sh
# Runs the simulator for MINUTES on all CPUs, on seeds from SEED on (a new place each day unless
# given), and stops at the first seed that breaks the contract, with the command that replays it.
set -eu
cd "$(dirname "$0")/.."
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 MINUTES [SEED]" >&2
    exit 2
fi
seed=${2:-$(($(date +%s) * 1000))}
echo "seeds from $seed on, for $1 minutes"
exec cargo run --release --locked -q -p corelog-sim -- --from "$seed" --minutes "$1"
