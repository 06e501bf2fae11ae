#!/usr/bin/env bash
# The Rust SDK as a load on corelog-broker, beside an echo and a server that does nothing: the tables
# of docs/broker.md. Usage: scripts/load.sh [OPTIONS OF load..] (--help lists them). Needs the network
# the first time.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
CARGO_TARGET_DIR=$target cargo build --release --locked -p corelog-broker
CARGO_TARGET_DIR=$target/interop cargo build --release --locked \
  --manifest-path crates/broker/interop/Cargo.toml --bin load
CORELOG_BROKER=$target/release/corelog-broker exec "$target/interop/release/load" "$@"
