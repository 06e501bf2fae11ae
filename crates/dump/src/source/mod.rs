//! The bytes of one file, through windows: mapped where that is safe, read elsewhere, and with
//! O_DIRECT where an engine may be writing or where that was asked for.

mod ahead;
mod reader;
#[cfg(test)]
mod tests;
mod whole;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, SeekFrom};

use corelog_format::first_nonzero;

use crate::failure::Failure;
use crate::live::{self, Held};
use crate::map::{Mapping, Pattern};
use crate::progress::Progress;

use reader::{Of, Reader};
use whole::Whole;

/// Bytes read ahead by one read, and the longest window of a mapping that nobody asked to be
/// longer. One read of this size is far cheaper than the checksums over what it brings.
const STEP_BYTES: u64 = 1 << 20;

/// The same while a few bytes are looked at here and there.
const SPARSE_STEP_BYTES: u64 = 4096;

/// How often a file is looked at that becomes shorter meanwhile.
const LOOKS_AT_A_CUT_FILE: u32 = 3;

/// How often, and how soon, what may be a write under way is looked at again.
const LOOKS_AT_A_WRITE: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// How files are opened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Access {
    /// Map files that nobody holds. Otherwise all are read.
    pub(crate) map: bool,
    /// Read everything with O_DIRECT, so that the page cache is left alone.
    pub(crate) direct: bool,
    /// The locks are our own, so nobody else writes: not to be treated as in motion.
    pub(crate) ours: bool,
    /// Say on standard error how far a long file is read, where that is a terminal.
    pub(crate) progress: bool,
}

/// Whether the last part of a path may be a symbolic link. What a user names may be one; what we
/// found in a directory may not, so that a planted link never leads out of the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Follow it.
    Follow,
    /// Refuse it.
    Refuse,
}

/// One open file. Its length is taken once, at open; nothing beyond it is ever looked at.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    file: File,
    len: u64,
    held: Held,
    bytes: Bytes,
    step_bytes: u64,
    pattern: Pattern,
    progress: Option<Progress>,
    looks_left: u32,
}

enum Bytes {
    Mapped(Mapping),
    Read(Reader),
    Whole(Whole),
}

impl Source {
    /// Opens a regular file. Anything else (a directory, a pipe, a device) is refused by name,
    /// without blocking on it.
    pub(crate) fn open(path: &Path, links: Links, access: Access) -> Result<Source, Failure> {
        // NONBLOCK: opening a pipe without a writer would wait for one. It changes nothing for
        // regular files.
        let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        if links == Links::Refuse {
            flags |= OFlags::NOFOLLOW;
        }
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map(File::from)
            .map_err(|errno| Failure::io(path, "open")(errno.into()))?;
        let about = file.metadata().map_err(Failure::io(path, "stat"))?;
        if !about.is_file() {
            return Err(Failure::not_ours(path, "not a regular file"));
        }
        let held = if access.ours { Held::No } else { live::held(&file) };
        let len = about.len();
        if access.direct || held != Held::No {
            direct(&file, path, access.direct)?;
        }
        let mappable = access.map && !access.direct && held == Held::No;
        let mapping = match usize::try_from(len) {
            Ok(len) if len > 0 && mappable => Mapping::new(&file, len).ok(),
            _ => None,
        };
        let bytes = match mapping {
            Some(mapping) => Bytes::Mapped(mapping),
            // A file system that cannot map (or an address space that is too small) can read.
            None => Bytes::Read(Reader::new()),
        };
        let progress = access.progress.then(|| Progress::of(path, len)).flatten();
        let path = path.to_path_buf();
        let (pattern, step_bytes) = (Pattern::Sequential, STEP_BYTES);
        let looks_left = LOOKS_AT_A_WRITE;
        Ok(Source { path, file, len, held, bytes, step_bytes, pattern, progress, looks_left })
    }

    /// Opens a file for one pass over all of it: read ahead of its use and never mapped, so that
    /// neither a page cache nor a file that is cut meanwhile suffers. What the device does not give
    /// back is stepped over, see [`Source::unreadable`]. One that an engine holds is read as by
    /// [`Source::open`].
    pub(crate) fn open_whole(path: &Path, links: Links, access: Access) -> Result<Source, Failure> {
        let mut source = Source::open(path, links, Access { map: false, ..access })?;
        if source.held == Held::No && !access.direct {
            source.bytes = Bytes::Whole(Whole::new(source.len));
        }
        Ok(source)
    }

    /// Blocks that the device did not give back, in ascending order; in the windows every byte of
    /// them is 0xFF, which no batch begins with.
    pub(crate) fn unreadable(&self) -> Vec<Range<u64>> {
        match &self.bytes {
            Bytes::Mapped(_) | Bytes::Read(_) => Vec::new(),
            Bytes::Whole(whole) => whole.unreadable(),
        }
    }

    /// Length of the file when it was opened.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Whether a process holds the file, so that its tail may be in motion.
    pub(crate) fn is_live(&self) -> bool {
        self.held == Held::Yes
    }

    /// Bytes that were read from the file so far, beyond what a mapping brings by itself.
    pub(crate) fn bytes_read(&self) -> u64 {
        match &self.bytes {
            Bytes::Mapped(_) => 0,
            Bytes::Read(reader) => reader.read,
            Bytes::Whole(whole) => whole.bytes_read(),
        }
    }

    /// What comes next: one window after the other, or a few bytes here and there.
    pub(crate) fn expect(&mut self, pattern: Pattern) {
        // Said for each header that is hopped over; a system call only where something changes.
        if self.pattern == pattern {
            return;
        }
        self.pattern = pattern;
        if let Bytes::Mapped(map) = &self.bytes {
            map.expect(pattern);
        }
        self.step_bytes = match pattern {
            Pattern::Sequential => STEP_BYTES,
            Pattern::Sparse => SPARSE_STEP_BYTES,
        };
    }

    /// The bytes from file position `at`: at least `len` of them, fewer only where the file ends.
    /// Costs no read and no copy where they are at hand, and memory of about
    /// `max(len, 1 MiB)` where they are not.
    pub(crate) fn window(&mut self, at: u64, len: u64) -> Result<&[u8], Failure> {
        let at = at.min(self.len);
        let end = at.saturating_add(len).min(self.len);
        let ahead = end.max(at.saturating_add(self.step_bytes).min(self.len));
        if let Some(progress) = &mut self.progress {
            progress.reached(at);
        }
        match &mut self.bytes {
            Bytes::Mapped(map) if map.was_cut() => Err(shrank(&self.file, &self.path, self.len)),
            Bytes::Mapped(map) => Ok(&map[at as usize..ahead as usize]),
            Bytes::Read(reader) => {
                let of = Of { file: &self.file, path: &self.path, len: self.len };
                reader.window(&of, at, end, ahead)
            }
            Bytes::Whole(whole) => {
                let of = Of { file: &self.file, path: &self.path, len: self.len };
                whole.window(&of, at, end, ahead)
            }
        }
    }

    /// Refuses what was read, if the file became shorter since it was opened: then zeros may have
    /// been seen that never stood in it. Asked wherever a pass would speak of damage or of the end.
    pub(crate) fn intact(&self) -> Result<(), Failure> {
        let about = self.file.metadata().map_err(Failure::io(&self.path, "stat"))?;
        let was_cut = matches!(&self.bytes, Bytes::Mapped(map) if map.was_cut());
        if was_cut || about.len() < self.len {
            return Err(shrank(&self.file, &self.path, self.len));
        }
        Ok(())
    }

    /// Reads around the page cache from here on, where the file system lets us.
    pub(crate) fn around_cache(&self) {
        let _ = direct(&self.file, &self.path, false);
    }

    /// Whether this is the file that `path` names now.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let there = std::fs::symlink_metadata(path);
        let same =
            |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        there.is_ok_and(|there| self.file.metadata().is_ok_and(|own| same(&there, &own)))
    }

    /// Looks at the file again: its length now, and none of the bytes that were read before. One
    /// that was cut under its mapping stays an error: zeros may have been taken for its bytes.
    pub(crate) fn refresh(&mut self) -> Result<(), Failure> {
        let about = self.file.metadata().map_err(Failure::io(&self.path, "stat"))?;
        let len = about.len();
        match &mut self.bytes {
            Bytes::Mapped(map) if map.was_cut() => {
                return Err(shrank(&self.file, &self.path, self.len));
            }
            Bytes::Mapped(_) if len == self.len => {}
            // It is in motion now: from here on it is read.
            Bytes::Mapped(_) => {
                self.around_cache();
                self.bytes = Bytes::Read(Reader::new());
            }
            Bytes::Read(reader) => reader.forget(),
            Bytes::Whole(whole) => whole.begin_again(len),
        }
        self.len = len;
        Ok(())
    }

    /// Whether what was read may be a write under way: somebody holds the file, or it has become
    /// longer. Then a moment has passed, and the next window reads what stands there now. What is
    /// damage still, after a second in all, is damage: no write is under way for longer.
    pub(crate) fn was_in_motion(&mut self) -> Result<bool, Failure> {
        self.intact()?;
        let has_grown = |about: &std::fs::Metadata| about.len() > self.len;
        let moves = self.is_live() || self.file.metadata().is_ok_and(|about| has_grown(&about));
        if !moves || self.looks_left == 0 {
            return Ok(false);
        }
        self.looks_left -= 1;
        std::thread::sleep(BETWEEN_LOOKS);
        self.intact()?;
        self.refresh()?;
        Ok(true)
    }

    /// What `look` finds. Where the file becomes shorter meanwhile, `look` is called again for what
    /// is left of it: an engine that seals its segment takes the preallocated end off, and one that
    /// opens its directory cuts a torn tail. The one rule for every command that reads.
    pub(crate) fn again_if_cut<T>(
        &mut self,
        mut look: impl FnMut(&mut Source) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        for _ in 1..LOOKS_AT_A_CUT_FILE {
            match look(self) {
                Err(Failure::Shrank { .. }) => self.refresh()?,
                done => return done,
            }
        }
        look(self)
    }

    /// The first position at or after `at` that may hold something other than zeros, as the file
    /// system tells; the length where only a hole is left. `at` itself where it does not tell.
    pub(crate) fn next_data(&self, at: u64) -> u64 {
        match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
            Ok(data) => data.clamp(at, self.len.max(at)),
            Err(rustix::io::Errno::NXIO) => self.len.max(at),
            Err(_) => at,
        }
    }

    /// Whether only zeros are left from `at` on. Holes are not read.
    pub(crate) fn zeros_to_end(&mut self, mut at: u64) -> Result<bool, Failure> {
        loop {
            at = self.next_data(at);
            let window = self.window(at, 1)?;
            if window.is_empty() {
                return Ok(true);
            }
            if first_nonzero(window).is_some() {
                return Ok(false);
            }
            at += window.len() as u64;
        }
    }
}

/// Reads of `file` go around the page cache from here on: an engine that writes with O_DIRECT
/// leaves old pages there. Where the file system refuses that, the engine's own writes went through
/// the page cache as well and a plain read is right, unless O_DIRECT was `asked` for.
fn direct(file: &File, path: &Path, asked: bool) -> Result<(), Failure> {
    match rustix::fs::fcntl_setfl(file, OFlags::DIRECT) {
        Ok(()) => Ok(()),
        Err(_) if !asked => Ok(()),
        Err(errno) => {
            let why = format!("its file system refuses O_DIRECT ({errno}); leave --direct away");
            Err(Failure::not_ours(path, why))
        }
    }
}

/// What to say of a file that is shorter than it was.
fn shrank(file: &File, path: &Path, was: u64) -> Failure {
    let ends = file.metadata().map_or(0, |about| about.len());
    Failure::Shrank { path: path.to_path_buf(), was, ends }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Bytes::Mapped(_) => "Mapped",
            Bytes::Read(_) => "Read",
            Bytes::Whole(_) => "Whole",
        })
    }
}
