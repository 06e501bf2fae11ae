#!/usr/bin/env bash
# Runs the runtime's tests of tasks that other threads wake with a glommio whose races are wide
# open: a copy of its source in which the few instructions between two steps take microseconds. A
# task that is freed twice there aborts the run. See crates/engine/src/runtime/glommio/spawn.rs, `apart`.
#
#   scripts/foreign-wakes.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds="${1:-10}"
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")/foreign-wakes"
source="$(cargo metadata --format-version 1 --locked |
    grep -o '"manifest_path":"[^"]*/glommio-0\.9\.0/Cargo\.toml"' | cut -d'"' -f4)"
rm -rf "$target/glommio"
mkdir -p "$target"
cp -r "$(dirname "$source")" "$target/glommio"

# LINE_AFTER_WHICH FILE CODE; a line that is not there exactly once is another glommio.
insert() {
    local file="$target/glommio/src/task/$2"
    [[ "$(grep -cF -- "$1" "$file")" == 1 ]] || { echo "$2: not the glommio known here" >&2; exit 2; }
    awk -v line="$1" -v code="$3" '{ print } index($0, line) { print code }' "$file" >"$file.new"
    mv "$file.new" "$file"
}
spin='for _ in 0..COUNT { std::hint::spin_loop() }'
# A foreign thread has queued the wake and keeps its own reference for a while, then
insert 'unsafe fn wake(ptr: *const ()) {' raw.rs "
        static TURN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        if Self::thread_id() != Some(Self::from_ptr(ptr).my_id()) {
            Self::do_wake(ptr);
            let turns = TURN.fetch_add(1, Ordering::Relaxed) * 61 % 8000;
            ${spin/COUNT/turns}
            return Self::drop_waker(ptr);
        }"
# takes long from the last reference to the next, while
insert 'if Self::decrement_references(&*(raw.header as *mut Header)) == 0 {' raw.rs "${spin/COUNT/3000}"
# the home thread takes long to drop the handle of a task that has ended.
insert '// Optimistically assume the `JoinHandle` is being dropped just after creating' join_handle.rs \
    "if (*header).state & COMPLETED != 0 { ${spin/COUNT/2000} }"

# The copy changes the lock file: it is put back.
lock="$(mktemp)"
cp Cargo.lock "$lock"
trap 'mv "$lock" Cargo.lock' EXIT
for ((round = 1; round <= rounds; round++)); do
    CARGO_TARGET_DIR="$target" cargo test --quiet \
        --config "patch.crates-io.glommio.path=\"$target/glommio\"" \
        -p corelog --lib runtime::tests::foreign -- --test-threads=1
done
