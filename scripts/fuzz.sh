#!/usr/bin/env bash
# Runs every fuzz target of crates/format and crates/broker for the given number of seconds each, 60
# by default.
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
hosts=(../format ../broker)

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

# The recorded requests are the seeds of the broker's: frames as they came, and bodies behind what
# the target reads of a header.
seed_broker() {
    local line=0 row hex frames=../broker/fuzz/corpus/frames requests=../broker/fuzz/corpus/requests
    mkdir -p "$frames" "$requests"
    while IFS= read -r row; do
        line=$((line + 1))
        hex="${row#*\"request\": \"}"
        hex="${hex%%\"*}"
        # Sends have batches of any length, which do not fit into two bytes.
        ((${#hex} <= 8192)) || continue
        # shellcheck disable=SC2059
        printf "$(sed 's/../\\x&/g' <<<"$hex")" >"$frames/recorded-$line"
        local body="${hex:512}" len
        len="$(printf '%04x' $((${#body} / 2)))"
        local head="${hex:352:2}${hex:392:4}${len:2:2}${len:0:2}"
        # shellcheck disable=SC2059
        printf "$(sed 's/../\\x&/g' <<<"$head$body")" >"$requests/recorded-$line"
    done <../broker/tests/vectors/exchanges.jsonl
}
seed_broker

wanted=("$@")
found=0
for host in "${hosts[@]}"; do
    cd "$host"
    mapfile -t targets < <(cargo +nightly fuzz list)
    for target in "${targets[@]}"; do
        [[ ${#wanted[@]} -eq 0 || " ${wanted[*]} " == *" $target "* ]] || continue
        echo "== $target, $seconds s"
        cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -print_final_stats=1
        found=$((found + 1))
    done
done
((found > 0)) || { echo "no such target: ${wanted[*]}" >&2; exit 2; }
echo "== nothing found in $found targets"
