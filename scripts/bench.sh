#!/usr/bin/env bash
# Measures everything that docs/performance.md states, with the settings that it states, and prints
# the tables in Markdown; then says which rows are not what the committed results have
# (benches/results), beyond the noise. Takes most of an hour on a disk of 3 GB/s; nothing else
# should run.
#
#   scripts/bench.sh [--save] [ROUNDS] [BENCH...]
#
# Each benchmark runs three times: on glommio with the allocator that puts buffers on 2 MiB pages,
# without that, and on the ring runtime.
# --save makes the results the committed ones: for a change that is meant, on the same machine.
# Exit status: 0 no row is worse, 1 one is worse or gone, 2 wrong usage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly committed=benches/results
save=
if [[ "${1:-}" == --save ]]; then
    save=1
    shift
fi
rounds="${1:-15}"
if ! [[ "$rounds" =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: $0 [--save] [ROUNDS] [BENCH...]" >&2
    exit 2
fi
shift || true
benches=("$@")
if [[ ${#benches[@]} -eq 0 ]]; then
    benches=(append poll durable memory allocations opening partitions hop waits)
fi

# Built before anything is measured.
cargo bench --locked --quiet -p corelog-bench --no-run --benches
cargo build --locked --quiet --release -p corelog-bench
results=${CARGO_TARGET_DIR:-$PWD/target}/bench-results
rm -rf "$results"
mkdir -p "$results"
before=()
for bench in "${benches[@]}"; do
    for variant in "" system ring; do
        flags=()
        [[ $variant == system ]] && flags=(--system-alloc)
        [[ $variant == ring ]] && flags=(--runtime ring)
        name=$bench${variant:+-$variant}.json
        cargo bench --locked --quiet -p corelog-bench --bench "$bench" -- --rounds "$rounds" \
            --json "$results/$name" "${flags[@]}"
        [[ -s $committed/$name ]] && before+=("$committed/$name")
    done
done

status=0
if [[ ${#before[@]} -gt 0 ]]; then
    printf '\nWhat moved since the committed results:\n'
    "${CARGO_TARGET_DIR:-target}/release/corelog-bench" moved \
        "$(IFS=,; echo "${before[*]}")" "$results" || status=$?
else
    echo "no committed results of these in $committed: nothing to compare with" >&2
fi
if [[ -n $save ]]; then
    mkdir -p "$committed"
    cp "$results"/*.json "$committed/"
fi
exit "$status"
