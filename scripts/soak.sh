#!/usr/bin/env bash
# Eight producers and eight consumers, the Rust SDK's, against corelog-broker: fails where something is
# lost or out of order, or where the broker's memory or descriptors grow.
# Usage: scripts/soak.sh [MINUTES [BATCH]], 60 unless given; with BATCH, each producer sends batches of as
# many messages without a rest. Needs the network the first time.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
CARGO_TARGET_DIR=$target cargo build --release --locked -p corelog-broker
CARGO_TARGET_DIR=$target/interop cargo build --release --locked \
  --manifest-path crates/broker/interop/Cargo.toml --bin soak
CORELOG_BROKER=$target/release/corelog-broker exec "$target/interop/release/soak" "${1:-60}" ${2:+"$2"}
