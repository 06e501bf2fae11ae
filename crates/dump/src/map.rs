//! The one unsafe room of this crate: a read-only mapping of a file.
#![expect(unsafe_code, reason = "mapping a file is unsafe: another process may change it under us")]

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::{Advice, Mmap, MmapOptions};

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
///   recovery until the file is sealed. Such files are read with pread instead.
/// - The reference server takes no lock, but it only ever appends to a segment or unlinks it:
///   bytes below the length taken at open stay, and an unlinked file lives as long as its mapping.
/// - Nothing decides on a byte that it has read before without its check: the decoder bounds every
///   length by the slice, so bytes that change under it give a wrong verdict, never a bad access.
///
/// What is left: a file that somebody truncates by hand, or an engine that opens the directory and
/// cuts a torn tail, between our look at the locks and the end of the pass. The kernel then ends
/// this process with SIGBUS. It writes nothing, so nothing is lost; `--no-mmap` avoids it.
pub(crate) struct Mapping(Mmap);

impl Mapping {
    /// Maps the first `len` bytes of `file`. `len` is not zero (the kernel refuses that).
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Mapping> {
        // SAFETY: the contract above; the caller has looked at the locks and passes the length
        // that fstat gave.
        let map = unsafe { MmapOptions::new().len(len).map(file)? };
        // Read ahead further, drop sooner. Advice only: a kernel that does not take it is fine.
        let _ = map.advise(Advice::Sequential);
        Ok(Mapping(map))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
