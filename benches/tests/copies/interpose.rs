//! This process's `memcpy` and `memmove`, which count what they move; every copy that is not
//! inlined, and so every one whose length is not known to the compiler, goes through them.
#![expect(unsafe_code, reason = "replaces two functions of the C library, see docs/unsafe.md")]

use std::arch::asm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What the payloads of messages consist of. A program moves more than messages, futures above all:
/// they are told apart by what they hold.
pub(crate) const PAYLOAD: u8 = 0xa7;

/// Shorter copies are headers and keys, not messages.
const COUNTED_MIN: usize = 512;

/// Where a copy is looked at.
const PLACES: usize = 31;

static COUNTS: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of messages that all threads copied, in pieces of at least [`COUNTED_MIN`], while `work` ran.
pub(crate) fn copied<T>(work: impl FnOnce() -> T) -> (T, u64) {
    BYTES.store(0, Ordering::SeqCst);
    COUNTS.store(true, Ordering::SeqCst);
    let done = work();
    COUNTS.store(false, Ordering::SeqCst);
    (done, BYTES.load(Ordering::SeqCst))
}

/// Counts a copy of messages.
///
/// # Safety
///
/// `from` is readable for `len` bytes.
unsafe fn count(from: *const c_void, len: usize) {
    if len < COUNTED_MIN || !COUNTS.load(Ordering::Relaxed) {
        return;
    }
    let holds = |at: &usize| {
        // SAFETY: `at` is below `len`.
        unsafe { from.cast::<u8>().add(*at).read() == PAYLOAD }
    };
    // In several places, as some lie in the headers of messages; in no order, as headers have one.
    let places = (1..=PLACES).map(|place| place.wrapping_mul(0x9e37_79b9_7f4a_7c15) % len);
    if places.filter(holds).count() > PLACES / 2 {
        BYTES.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// C's `memcpy`.
///
/// # Safety
///
/// As C has it: `from` is readable and `to` writable for `len` bytes, and they do not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { count(from, len) };
    // SAFETY: the caller's promise; the direction flag is clear by the calling convention. In
    // assembly, as a loop of Rust may be compiled to a call of this very function.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
             options(nostack, preserves_flags));
    }
    to
}

/// C's `memmove`.
///
/// # Safety
///
/// As C has it: `from` is readable and `to` writable for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    if (to as usize).wrapping_sub(from as usize) >= len {
        // SAFETY: what is read is read before it is written, going forward.
        return unsafe { memcpy(to, from, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { count(from, len) };
    // SAFETY: the caller's promise; `to` lies above `from`, so going backward from the last byte
    // (`len` is not 0 here) reads before it writes. The direction flag is set back.
    unsafe {
        asm!("std", "rep movsb", "cld",
             inout("rcx") len => _,
             inout("rdi") to.cast::<u8>().add(len - 1) => _,
             inout("rsi") from.cast::<u8>().add(len - 1) => _,
             options(nostack));
    }
    to
}

/// Asserts that the two do what C's do.
pub(crate) fn check() {
    let bytes: Vec<u8> = (0..=255).cycle().take(4000).collect();
    for (from, to, len) in [(0, 1000, 900), (0, 1, 3000), (1, 0, 3000), (7, 7, 10), (5, 9, 0)] {
        let mut moved = bytes.clone();
        moved.copy_within(from..from + len, to);
        let expected: Vec<u8> = (0..4000)
            .map(|at| if (to..to + len).contains(&at) { bytes[at - to + from] } else { bytes[at] })
            .collect();
        // Not by `memcmp` alone: a wrong copy of both would compare equal.
        assert!(moved.iter().zip(&expected).all(|(a, b)| a == b), "{from} to {to}, {len}");
    }
    let (others, messages) = (vec![1; 4000], vec![PAYLOAD; 4000]);
    let seen = |bytes: &Vec<u8>| copied(|| drop(std::hint::black_box(bytes.clone()))).1;
    assert_eq!((seen(&others), seen(&messages)), (0, 4000));
}
