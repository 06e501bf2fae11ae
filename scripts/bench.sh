#!/usr/bin/env bash
# Measures everything that docs/performance.md states, with the settings that it states, and prints
# the tables in Markdown. Takes about half an hour on a disk of 3 GB/s; nothing else should run.
#
#   scripts/bench.sh [ROUNDS] [BENCH...]
#
# Each benchmark runs twice: with the allocator that puts buffers on 2 MiB pages, and without.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds="${1:-15}"
if ! [[ "$rounds" =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: $0 [ROUNDS] [BENCH...]" >&2
    exit 2
fi
shift || true
benches=("$@")
if [[ ${#benches[@]} -eq 0 ]]; then
    benches=(append poll durable memory allocations opening partitions hop waits)
fi

# Built before anything is measured.
cargo bench --locked --quiet -p corelog-bench --no-run --benches
for bench in "${benches[@]}"; do
    cargo bench --locked --quiet -p corelog-bench --bench "$bench" -- --rounds "$rounds"
    cargo bench --locked --quiet -p corelog-bench --bench "$bench" -- --rounds "$rounds" --system-alloc
done
