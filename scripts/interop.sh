#!/usr/bin/env bash
# Real clients of Apache Iggy, its Rust SDK and its command-line client, against corelog-broker.
# Usage: scripts/interop.sh [ARGUMENTS OF cargo test..]. Needs the network the first time.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CLI_VERSION=0.14.0-edge.4
target=$PWD/target/interop

# Here, wherever the caller has his builds.
CARGO_TARGET_DIR=$PWD/target cargo build --locked -p corelog-broker
# The client and the tests share what they are built of.
export CARGO_TARGET_DIR=$target
if ! "$target/bin/iggy" --version 2>/dev/null | grep -q "$CLI_VERSION"; then
  cargo install --quiet --locked --debug --root "$target" --version "=$CLI_VERSION" iggy-cli
fi
export CORELOG_BROKER=$PWD/target/debug/corelog-broker
export CORELOG_IGGY_CLI=$target/bin/iggy
cargo test --locked --manifest-path crates/broker/interop/Cargo.toml "$@"
# A minute of what scripts/soak.sh does for an hour.
cargo run --quiet --locked --manifest-path crates/broker/interop/Cargo.toml --bin soak -- 1
