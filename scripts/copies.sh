#!/usr/bin/env bash
# Shows how often the bytes of a message are copied on the paths of append and poll, by counting what
# memcpy and memmove move, and fails where a copy more appears. Counted, not timed: it holds anywhere.
# It is a test among the others, benches/tests/copies, so it runs with every change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo test --locked --quiet -p corelog-bench --test copies -- --nocapture
