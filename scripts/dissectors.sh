#!/usr/bin/env bash
# Makes the Wireshark dissector and the ImHex pattern anew from the field tables of corelog-format
# (crates/format/src/layout.rs). A test of corelog-dump compares them with what is checked in.
set -euo pipefail
cd "$(dirname "$0")/.."
out=scripts/dissectors
for what in wireshark:corelog.lua imhex:corelog.hexpat; do
  cargo run --quiet --locked -p corelog-format --example dissectors -- "${what%%:*}" > "$out/${what#*:}.new"
  mv "$out/${what#*:}.new" "$out/${what#*:}"
done
