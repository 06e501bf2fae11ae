//! The part of a file that was read last, in whole blocks, so that O_DIRECT takes them as well.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use corelog_io::{AlignedBuf, BLOCK, align_down, align_up};

use crate::failure::Failure;

/// A window of the file: blocks that were read, from `start` on.
pub(super) struct Reader {
    buffer: AlignedBuf,
    /// File position of the first byte of `buffer`: a multiple of the block.
    start: u64,
    /// Bytes of `buffer` that hold the file's.
    filled: usize,
    /// Bytes that were read, all together.
    pub(super) read: u64,
}

/// What one window is made of: the file, what it is called, and how long it is.
pub(super) struct Of<'a> {
    pub(super) file: &'a File,
    pub(super) path: &'a Path,
    pub(super) len: u64,
}

impl Reader {
    /// A window of nothing.
    pub(super) fn new() -> Reader {
        Reader { buffer: AlignedBuf::new(BLOCK), start: 0, filled: 0, read: 0 }
    }

    /// Forgets what was read: the file has changed.
    pub(super) fn forget(&mut self) {
        self.filled = 0;
    }

    /// The bytes from `at` on: up to `end` at least, up to `ahead` when they have to be read
    /// (`at <= end <= ahead <= of.len`).
    pub(super) fn window(
        &mut self,
        of: &Of<'_>,
        at: u64,
        end: u64,
        ahead: u64,
    ) -> Result<&[u8], Failure> {
        if at < self.start || end > self.start + self.filled as u64 {
            self.fill(of, at, ahead)?;
        }
        let have = (self.start + self.filled as u64).min(of.len);
        let (from, to) = ((at - self.start) as usize, (have - self.start) as usize);
        Ok(&self.buffer.as_ref()[from.min(to)..to])
    }

    /// Brings the blocks of `at..ahead` in. What is there of them already is moved, not read again.
    fn fill(&mut self, of: &Of<'_>, at: u64, ahead: u64) -> Result<(), Failure> {
        let start = align_down(at);
        let bytes = ((align_up(ahead) - start) as usize).max(BLOCK);
        // Whole blocks of what we have, from `start` on.
        let whole = self.start + (self.filled - self.filled % BLOCK) as u64;
        let kept = match start >= self.start && start < whole {
            true => (start - self.start) as usize..(whole - self.start) as usize,
            false => 0..0,
        };
        let kept_len = kept.len();
        if bytes > self.buffer.as_ref().len() {
            let mut longer = AlignedBuf::new(bytes);
            longer.as_mut()[..kept_len].copy_from_slice(&self.buffer.as_ref()[kept]);
            self.buffer = longer;
        } else {
            self.buffer.as_mut().copy_within(kept, 0);
        }
        (self.start, self.filled) = (start, kept_len);
        while self.filled < bytes {
            let position = start + self.filled as u64;
            match of.file.read_at(&mut self.buffer.as_mut()[self.filled..bytes], position) {
                Ok(n) => {
                    self.filled += n;
                    self.read += n as u64;
                    let ends = position + n as u64;
                    // Only the end of a file ends a read inside a block.
                    if ends >= of.len {
                        break;
                    }
                    if n == 0 || !n.is_multiple_of(BLOCK) {
                        let path = of.path.to_path_buf();
                        return Err(Failure::Shrank { path, was: of.len, ends });
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Failure::io(of.path, "read")(e)),
            }
        }
        Ok(())
    }
}
