#!/usr/bin/env bash
# Runs every fuzz target of crates/format for the given number of seconds each, 60 by default.
# Needs a nightly compiler; installs cargo-fuzz when it is missing. Stops at the first finding,
# which cargo-fuzz prints together with the command that replays it.
#
#   scripts/fuzz.sh [SECONDS] [TARGET...]
set -euo pipefail

seconds="${1:-60}"
if ! [[ "$seconds" =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: $0 [SECONDS] [TARGET...]" >&2
    exit 2
fi
shift || true

cd "$(dirname "${BASH_SOURCE[0]}")/../crates/format"

if ! rustc +nightly --version >/dev/null 2>&1; then
    echo "no nightly compiler: rustup toolchain install nightly --profile minimal" >&2
    exit 2
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    cargo +nightly install cargo-fuzz --locked
fi

# The vectors are the seeds: without them no input would soon reach a thousand options.
seed() { # TARGET TYPE
    local corpus="fuzz/corpus/$1" line=0 row hex
    mkdir -p "$corpus"
    while IFS= read -r row; do
        line=$((line + 1))
        [[ "$row" == *"\"type\": \"$2\""* ]] || continue
        hex="${row#*\"hex\": \"}"
        hex="${hex%%\"*}"
        # The format is the data: two digits become one escaped byte.
        # shellcheck disable=SC2059
        printf "$(sed 's/../\\x&/g' <<<"$hex")" >"$corpus/vector-$line"
    done <tests/vectors/wire.jsonl
}
seed headers user_headers
seed options options_block
seed batch batch

targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
    mapfile -t targets < <(cargo +nightly fuzz list)
fi
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -print_final_stats=1
done
echo "== nothing found in ${#targets[@]} targets"
