//! Two signals: SIGBUS, which a mapped file that was cut brings, and the wish to end.
#![expect(
    unsafe_code,
    reason = "signal handlers, and zeros in the place of a mapping that is gone"
)]

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};

/// Mappings that can be guarded at a time; one that finds no place is not made.
const PLACES: usize = 256;

/// A mapping that the handler knows. A place is free while `start` is zero.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
    was_cut: AtomicBool,
}

static TABLE: [Place; PLACES] = [const {
    Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0), was_cut: AtomicBool::new(false) }
}; PLACES];

static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

static ASKED_TO_END: AtomicBool = AtomicBool::new(false);

/// Keeps SIGBUS in one range of memory from ending the process: a touch of a page that the file
/// behind it has lost finds zeros, and [`Guard::was_cut`] says so from then on.
///
/// # Safety contract
///
/// The range is a private, read-only mapping that is owned by whoever owns the guard, and the
/// guard is dropped before it is unmapped: so the handler only ever replaces pages of a mapping
/// that is still there. It replaces all of it from the page that was missing, by one system call.
/// The handler takes no lock and allocates nothing; what it reads are atomics.
#[derive(Debug)]
pub(crate) struct Guard {
    place: usize,
}

impl Guard {
    /// Guards `start..end`, or nothing where too many are guarded already.
    pub(crate) fn over(start: usize, end: usize) -> Option<Guard> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            // SAFETY: asks for a constant of the system.
            let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            PAGE_BYTES.store(usize::try_from(page_bytes).unwrap_or(4096), Ordering::Relaxed);
            handle(libc::SIGBUS, on_bus_error as *const () as usize, libc::SA_SIGINFO);
        });
        let place = TABLE.iter().position(|place| {
            // Taken with an empty range, which the handler finds nothing in.
            place.start.compare_exchange(0, usize::MAX, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        TABLE[place].was_cut.store(false, Ordering::Relaxed);
        TABLE[place].end.store(end, Ordering::Relaxed);
        TABLE[place].start.store(start, Ordering::Release);
        Some(Guard { place })
    }

    /// Whether a touch met a page that is not there any more.
    pub(crate) fn was_cut(&self) -> bool {
        TABLE[self.place].was_cut.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        TABLE[self.place].end.store(0, Ordering::Release);
        TABLE[self.place].start.store(0, Ordering::Release);
    }
}

/// SIGBUS: zeros in the place of what is missing, if it is ours; else what would happen without us.
extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() }.addr();
    for place in &TABLE {
        let start = place.start.load(Ordering::Acquire);
        let end = place.end.load(Ordering::Acquire);
        if start <= address && address < end {
            let page = address & !(PAGE_BYTES.load(Ordering::Relaxed) - 1);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: the range is part of a mapping that its owner keeps while it is in the table
            // (see `Guard`), is read by nobody but the owner, and stays readable memory.
            let zeros = unsafe {
                let page = ptr::without_provenance_mut(page);
                libc::mmap(page, end - page.addr(), libc::PROT_READ, flags, -1, 0)
            };
            if zeros != libc::MAP_FAILED {
                place.was_cut.store(true, Ordering::Release);
                return;
            }
        }
    }
    // The instruction is run again on return and ends the process as the system does.
    handle(signal, libc::SIG_DFL, 0);
}

/// From here on SIGINT and SIGTERM are noticed, not obeyed; a second one ends the process at once.
pub(crate) fn notice_end() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        handle(signal, on_end as *const () as usize, libc::SA_RESETHAND);
    }
}

/// Whether such a signal came.
pub(crate) fn asked_to_end() -> bool {
    ASKED_TO_END.load(Ordering::Relaxed)
}

extern "C" fn on_end(_signal: c_int) {
    ASKED_TO_END.store(true, Ordering::Relaxed);
}

/// Installs `handler`, one of the functions above or SIG_DFL.
fn handle(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: all zeros is a valid sigaction; the handlers do only what a handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigemptyset(&raw mut action.sa_mask);
        // Fails only for numbers that are no signals.
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}
