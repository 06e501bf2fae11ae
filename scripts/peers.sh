#!/usr/bin/env bash
# Other embedded logs and Corelog: the same bytes, the same promise, in turns, a process each. Prints a
# table a class in Markdown. Builds the others first, with crates from the network.
#
#   scripts/peers.sh DIR [ARGUMENTS OF peers run..]
#
# DIR is an empty or absent directory on the disk in question. `perf` counts system calls, where it is.
set -euo pipefail
if [[ $# -eq 0 || "$1" == -* ]]; then
    echo "usage: $0 DIR [ARGUMENTS OF peers run..]" >&2
    exit 2
fi
dir=$(realpath -m -- "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CARGO_TARGET_DIR=$PWD/target/peers
cargo build --locked --quiet --release --manifest-path benches/peers/Cargo.toml
exec "$CARGO_TARGET_DIR/release/corelog-peers" run --dir "$dir" "$@"
