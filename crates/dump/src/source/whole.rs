//! Windows of a file that is read from its start to its end: what was read last is kept, what comes
//! next is read ahead, and what the device does not give back is stepped over.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::ahead::Ahead;
use super::reader::Of;
use crate::failure::Failure;

/// A pass over a shorter file starts no threads.
const AHEAD_MIN: u64 = 8 << 20;
/// After a jump so many bytes in order bring the threads back: a search behind damage jumps often.
const RUN_MIN: u64 = 4 << 20;
/// Where one block cannot be read its neighbours still may.
const BLOCK: u64 = 4096;
/// Stands in the place of bytes that could not be read. As a number it is no length of a batch.
const LOST: u8 = 0xFF;
/// Blocks that could not be read and are told apart: 256 MiB of them. Of more only that there are.
const LOST_BLOCKS_MAX: usize = 65_536;

/// The part of a file that was read last.
#[derive(Debug)]
pub(super) struct Whole {
    /// File position of the first byte of `buffer`.
    start: u64,
    buffer: Vec<u8>,
    /// So many bytes of `buffer` count.
    filled: usize,
    /// Bytes that were read, all together.
    read: u64,
    /// `None`: nobody wants to read ahead.
    ahead: Option<Option<Ahead>>,
    /// Bytes read in order since the last jump.
    run: u64,
    /// Numbers of blocks that could not be read.
    lost: BTreeSet<u64>,
}

impl Whole {
    /// A window of nothing, of a file of `len` bytes.
    pub(super) fn new(len: u64) -> Whole {
        let ahead = (len >= AHEAD_MIN).then_some(None);
        let (buffer, lost) = (Vec::new(), BTreeSet::new());
        Whole { start: 0, buffer, filled: 0, read: 0, ahead, run: RUN_MIN, lost }
    }

    /// Forgets what was read, of a file that is `len` bytes long now.
    pub(super) fn begin_again(&mut self, len: u64) {
        self.filled = 0;
        self.ahead = (len >= AHEAD_MIN).then_some(None);
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.read
    }

    /// Blocks that could not be read, neighbours as one range.
    pub(super) fn unreadable(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for block in &self.lost {
            let (start, end) = (block * BLOCK, (block + 1) * BLOCK);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// The bytes from `at`, up to `end` at least; where something must be read, up to `ahead`.
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
        Ok(&self.buffer[(at - self.start) as usize..self.filled])
    }

    /// Makes the buffer hold `at..end`, and nothing before.
    fn fill(&mut self, of: &Of<'_>, at: u64, end: u64) -> Result<(), Failure> {
        let have = self.start + self.filled as u64;
        if at >= self.start && at < have {
            // The rest of what we have comes to the front; only what is new is read.
            let used = (at - self.start) as usize;
            self.buffer.copy_within(used..self.filled, 0);
            self.filled -= used;
        } else {
            self.filled = 0;
            if at != have {
                self.run = 0;
                if let Some(ahead) = &mut self.ahead {
                    *ahead = None;
                }
            }
        }
        self.start = at;
        let want = (end - at) as usize;
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        while self.filled < want {
            let position = at + self.filled as u64;
            let n = self.read_some(of, position, want)?;
            if n == 0 {
                let path = of.path.to_path_buf();
                return Err(Failure::Shrank { path, was: of.len, ends: position });
            }
            self.filled += n;
            self.read += n as u64;
            self.run = self.run.saturating_add(n as u64);
        }
        Ok(())
    }

    /// Some bytes from `position` into the free part of the buffer, up to `want` bytes of it in all.
    fn read_some(&mut self, of: &Of<'_>, position: u64, want: usize) -> Result<usize, Failure> {
        if let Some(ahead) = &mut self.ahead {
            if ahead.is_none() && self.run >= RUN_MIN {
                // Without threads it is read all the same, only slower.
                *ahead = Ahead::new(of.file, of.len, position).ok();
            }
            if let Some(stream) = ahead.as_mut().filter(|stream| stream.position() == position) {
                match stream.read(&mut self.buffer[self.filled..want]) {
                    Ok(n) => return Ok(n),
                    // What cannot be read is looked at more closely, without the threads.
                    Err(_) => (*ahead, self.run) = (None, 0),
                }
            }
        }
        loop {
            match of.file.read_at(&mut self.buffer[self.filled..want], position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_unreadable(&error) => {
                    return Ok(self.one_block(of.file, position, want));
                }
                read => return read.map_err(Failure::io(of.path, "read")),
            }
        }
    }

    /// One block of a range of which some cannot be read; where it is this one, it is noted, and
    /// stood in for.
    fn one_block(&mut self, file: &File, position: u64, want: usize) -> usize {
        let to_next = (BLOCK - position % BLOCK) as usize;
        let len = to_next.min(want - self.filled);
        let into = &mut self.buffer[self.filled..self.filled + len];
        match file.read_at(into, position) {
            Ok(n) if n > 0 => n,
            _ => {
                into.fill(LOST);
                if self.lost.len() < LOST_BLOCKS_MAX {
                    self.lost.insert(position / BLOCK);
                }
                len
            }
        }
    }
}

/// An error about these bytes, not about the way to them.
fn is_unreadable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let unreadable = [Errno::IO, Errno::NODATA, Errno::ILSEQ, Errno::BADMSG, Errno::REMOTEIO];
    error.raw_os_error().is_some_and(|code| unreadable.iter().any(|e| e.raw_os_error() == code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The kernel answers EIO to reads of addresses that nobody has mapped, such as the first.
    #[test]
    fn what_cannot_be_read_is_stepped_over_block_by_block() {
        let path = Path::new("/proc/self/mem");
        let file = File::open(path).expect("our own memory");
        let of = Of { file: &file, path, len: 3 * BLOCK - 100 };
        let mut whole = Whole::new(of.len);
        let window = whole.window(&of, 10, 5000, of.len).expect("stepped over");
        assert!(window.len() as u64 == of.len - 10 && window.iter().all(|byte| *byte == LOST));
        assert_eq!(whole.unreadable(), [Range { start: 0, end: 3 * BLOCK }]);
        // Looked at again it is no more than it was.
        whole.begin_again(of.len);
        whole.window(&of, 0, 100, 100).expect("stepped over");
        assert_eq!(whole.unreadable().len(), 1);
    }

    #[test]
    fn windows_and_jumps_hold_the_files_bytes() {
        let len = 3 * AHEAD_MIN as usize + 12_345;
        let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 4099) as u8).collect();
        let file = crate::testing::Temporary::with("whole", &bytes);
        let opened = File::open(&file.0).expect("opened");
        let of = Of { file: &opened, path: &file.0, len: len as u64 };
        let mut whole = Whole::new(of.len);
        let mut at = 0;
        let jumps = [(5, 100), (len - 9, 9), (1 << 20, 3 << 20), (0, 1), (len / 2, 7 << 20)];
        let runs = (0..len / 300_000).map(|n| (n * 300_000, 299_999));
        for (from, want) in runs.clone().chain(jumps).chain(runs) {
            let end = (from + want).min(len);
            let ahead = (from + want.max(1 << 20)).min(len);
            let window = whole.window(&of, from as u64, end as u64, ahead as u64).expect("read");
            assert!(window.len() >= end - from && window == &bytes[from..from + window.len()]);
            at += window.len();
        }
        assert!(at > 2 * len / 3 && whole.unreadable().is_empty());
    }
}
