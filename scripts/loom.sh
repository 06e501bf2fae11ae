#!/bin/sh
# Checks the lock-free protocols of the shard crate in all orders that loom finds.
set -eu
cd "$(dirname "$0")/.."
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test -p corelog-shard --release --test loom "$@"
