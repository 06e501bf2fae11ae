//! The bytes of one file, through windows: mapped where that is safe, read with pread elsewhere.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, SeekFrom};

use corelog_format::first_nonzero;

use crate::failure::Failure;
use crate::live::{self, Held};
use crate::map::Mapping;

/// Bytes read ahead by one pread, and the longest window of a mapping that nobody asked to be
/// longer. One read of this size is far cheaper than the checksums over what it brings.
const STEP_BYTES: u64 = 1 << 20;

/// How files are opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    /// Map files that nobody holds. Otherwise all are read.
    pub(crate) map: bool,
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
}

enum Bytes {
    Mapped(Mapping),
    Read(Reader),
}

/// The part of the file that was read last.
struct Reader {
    /// File position of the first byte of `buffer`.
    start: u64,
    buffer: Vec<u8>,
    /// Bytes that pread brought, all together.
    read: u64,
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
        let (len, held) = (about.len(), live::held(about.ino()));
        let mapping = match usize::try_from(len) {
            Ok(len) if len > 0 && access.map && held == Held::No => Mapping::new(&file, len).ok(),
            _ => None,
        };
        let bytes = match mapping {
            Some(mapping) => Bytes::Mapped(mapping),
            // A file system that cannot map (or an address space that is too small) can read.
            None => Bytes::Read(Reader { start: 0, buffer: Vec::new(), read: 0 }),
        };
        Ok(Source { path: path.to_path_buf(), file, len, held, bytes })
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
        }
    }

    /// The bytes from file position `at`: at least `len` of them, fewer only where the file ends.
    /// Costs no read and no copy where they are at hand, and memory of about
    /// `max(len, 1 MiB)` where they are not.
    pub(crate) fn window(&mut self, at: u64, len: u64) -> Result<&[u8], Failure> {
        let at = at.min(self.len);
        let end = at.saturating_add(len).min(self.len);
        match &mut self.bytes {
            Bytes::Mapped(map) => {
                let end = end.max(at.saturating_add(STEP_BYTES).min(self.len));
                Ok(&map[at as usize..end as usize])
            }
            Bytes::Read(reader) => {
                let step_end = at.saturating_add(STEP_BYTES).min(self.len);
                reader.fill(&self.file, &self.path, at, end, step_end.max(end), self.len)?;
                Ok(&reader.buffer[(at - reader.start) as usize..])
            }
        }
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

impl Reader {
    /// Makes `buffer` hold `at..end`; when it must read, it reads up to `ahead`.
    fn fill(
        &mut self,
        file: &File,
        path: &Path,
        at: u64,
        end: u64,
        ahead: u64,
        file_len: u64,
    ) -> Result<(), Failure> {
        let have = self.start + self.buffer.len() as u64;
        if at >= self.start && end <= have {
            return Ok(());
        }
        if at >= self.start && at < have {
            // The rest of what we have comes to the front; only what is new is read.
            let used = (at - self.start) as usize;
            self.buffer.copy_within(used.., 0);
            self.buffer.truncate(self.buffer.len() - used);
        } else {
            self.buffer.clear();
        }
        self.start = at;
        let mut filled = self.buffer.len();
        self.buffer.resize((ahead - at) as usize, 0);
        while filled < self.buffer.len() {
            let position = at + filled as u64;
            match file.read_at(&mut self.buffer[filled..], position) {
                Ok(0) => {
                    self.buffer.truncate(filled);
                    let path = path.to_path_buf();
                    return Err(Failure::Shrank { path, was: file_len, ends: position });
                }
                Ok(n) => {
                    filled += n;
                    self.read += n as u64;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.buffer.truncate(filled);
                    return Err(Failure::io(path, "read")(e));
                }
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Bytes::Mapped(_) => "Mapped",
            Bytes::Read(_) => "Read",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    struct Temporary(PathBuf);

    impl Temporary {
        fn with(name: &str, bytes: &[u8]) -> Temporary {
            let path =
                std::env::temp_dir().join(format!("corelog-dump-{name}-{}", std::process::id()));
            File::create(&path).and_then(|mut f| f.write_all(bytes)).expect("a temporary file");
            Temporary(path)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn windows_of_both_kinds_hold_the_same_bytes() {
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let file = Temporary::with("windows", &bytes);
        for map in [true, false] {
            let mut source = Source::open(&file.0, Links::Refuse, Access { map }).expect("opened");
            assert_eq!(source.len(), bytes.len() as u64);
            // Forwards by little, forwards over the step, backwards, longer than a step, the end.
            for (at, len) in [
                (0, 256),
                (100, 256),
                (1_048_500, 256),
                (1_048_501, 2_000_000),
                (3, 10),
                (2_999_990, 256),
                (3_000_000, 1),
                (u64::MAX, u64::MAX),
            ] {
                let window = source.window(at, len).expect("a window");
                let start = (at as usize).min(bytes.len());
                let least = (len as usize).min(bytes.len() - start);
                assert!(window.len() >= least, "map {map}: {at}, {len}");
                assert!(window == &bytes[start..start + window.len()], "map {map}: {at}, {len}");
            }
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_when_read() {
        let file = Temporary::with("shrinks", &[1; 5000]);
        let access = Access { map: false };
        let mut source = Source::open(&file.0, Links::Refuse, access).expect("opened");
        File::options().write(true).open(&file.0).and_then(|f| f.set_len(100)).expect("cut");
        let error = source.window(0, 256).expect_err("shrunk");
        assert!(matches!(error, Failure::Shrank { was: 5000, ends: 100, .. }), "{error}");
    }

    #[test]
    fn links_are_followed_only_where_asked() {
        let file = Temporary::with("target", b"x");
        let link = Temporary::with("link", b"");
        std::fs::remove_file(&link.0).expect("removed");
        std::os::unix::fs::symlink(&file.0, &link.0).expect("linked");
        let access = Access { map: true };
        assert!(Source::open(&link.0, Links::Follow, access).is_ok());
        assert!(Source::open(&link.0, Links::Refuse, access).is_err());
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused() {
        for path in ["/dev/null", "/"] {
            let open = Source::open(Path::new(path), Links::Follow, Access { map: true });
            assert!(matches!(open, Err(Failure::NotOurs { .. })), "{path}");
        }
    }

    #[test]
    fn a_hole_up_to_the_end_is_known_without_reading() {
        let file = Temporary::with("hole", &[1; 4096]);
        let len = 1 << 40;
        File::options().write(true).open(&file.0).and_then(|f| f.set_len(len)).expect("sparse");
        let source = Source::open(&file.0, Links::Refuse, Access { map: true }).expect("opened");
        assert_eq!(source.next_data(0), 0);
        // A file system without SEEK_DATA says that there may be data: allowed, only slower.
        let next = source.next_data(1 << 20);
        assert!(next == len || next == 1 << 20, "{next}");
    }

    #[test]
    fn the_first_byte_that_is_not_zero() {
        for len in [0, 1, 63, 64, 65, 1000] {
            let mut bytes = vec![0; len];
            assert_eq!(first_nonzero(&bytes), None);
            for at in 0..len {
                bytes[at] = 1;
                assert_eq!(first_nonzero(&bytes), Some(at), "{len}");
                bytes[at] = 0;
            }
        }
    }
}
