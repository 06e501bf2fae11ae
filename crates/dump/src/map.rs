//! A read-only mapping of a file.
#![expect(unsafe_code, reason = "mapping a file is unsafe: another process may change it under us")]

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::{Advice, Mmap, MmapOptions};

use crate::signals::Guard;

/// In what order a file is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// From front to back.
    Sequential,
    /// A few bytes here and there: nothing is read ahead.
    Sparse,
}

/// The first `len` bytes of a file, mapped for reading.
///
/// # Safety contract
///
/// Rust asks that the bytes behind a `&[u8]` do not change while it lives, and the kernel answers
/// a touch beyond the end of the file with SIGBUS. Neither can be enforced against another
/// process; this is what keeps both away, and what is left:
///
/// - A mapping is read-only and private to one pass over one file; it is dropped with the pass.
/// - It never reaches beyond the length that fstat gave when the file was opened.
/// - Only [`crate::source`] makes one, and only for files that no process holds an flock on
///   (`live.rs`): an engine locks every segment that it may still write to or cut, from before its
///   recovery until the file is sealed. Such files are read instead, with O_DIRECT.
/// - The reference server takes no lock, but it only ever appends to a segment or unlinks it:
///   bytes below the length taken at open stay, and an unlinked file lives as long as its mapping.
/// - Nothing decides on a byte that it has read before without its check: the decoder bounds every
///   length by the slice, so bytes that change under it give a wrong verdict, never a bad access.
/// - A file that is cut all the same (by hand, or by an engine that opens the directory during the
///   pass) gives zeros, not SIGBUS (`signals.rs`), and the pass ends in an error that says so.
pub(crate) struct Mapping {
    // In this order: the guard goes before what it guards.
    guard: Guard,
    map: Mmap,
}

impl Mapping {
    /// Maps the first `len` bytes of `file`. `len` is not zero (the kernel refuses that).
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Mapping> {
        // SAFETY: the contract above; the caller has looked at the locks and passes the length
        // that fstat gave.
        let map = unsafe { MmapOptions::new().len(len).map(file)? };
        let start = map.as_ptr().addr();
        let guard = Guard::over(start, start + len)
            .ok_or_else(|| io::Error::other("too many files are mapped"))?;
        let mapping = Mapping { guard, map };
        mapping.expect(Pattern::Sequential);
        Ok(mapping)
    }

    /// Reads ahead and drops accordingly. Advice only: a kernel that does not take it is fine.
    pub(crate) fn expect(&self, pattern: Pattern) {
        let _ = self.map.advise(match pattern {
            Pattern::Sequential => Advice::Sequential,
            Pattern::Sparse => Advice::Random,
        });
    }

    /// Whether a byte was asked for that the file had lost by then: zeros were given for it.
    pub(crate) fn was_cut(&self) -> bool {
        self.guard.was_cut()
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
