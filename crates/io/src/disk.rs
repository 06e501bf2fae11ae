//! Disk and file: what storage may ask of the world, and what each answer guarantees.

use std::ffi::OsString;
use std::future::Future;
use std::path::Path;
use std::rc::Rc;

use crate::{IoError, Spawn};

/// Offsets, lengths and memory of every read and write are multiples of this many bytes.
/// 4096 satisfies every device that O_DIRECT meets in practice (512 and 4096 byte sectors).
pub const BLOCK: usize = 4096;

/// `position` rounded down to a block boundary.
pub const fn align_down(position: u64) -> u64 {
    position & !(BLOCK as u64 - 1)
}

/// `position` rounded up to a block boundary. Positions within a block of `u64::MAX` saturate
/// downwards: no file is that long, and the caller's bounds check then refuses.
pub const fn align_up(position: u64) -> u64 {
    match position.checked_add(BLOCK as u64 - 1) {
        Some(p) => align_down(p),
        None => align_down(position),
    }
}

/// How to open a file. The default opens an existing file for reading only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Open {
    /// Open for writing as well.
    pub write: bool,
    /// Create the file; it must not exist (EEXIST otherwise). Implies `write`.
    pub create_new: bool,
    /// Every write returns only when its bytes are durable (O_DSYNC). On devices with FUA such a
    /// write makes ONLY ITSELF durable, not the writes before it through other handles.
    pub dsync: bool,
    /// Take the exclusive advisory lock (flock) of the open file description; held until the
    /// handle and every operation in flight on it are gone. `IoOp::Lock` with `WouldBlock` where
    /// another handle has it.
    pub lock: bool,
    /// A hint: the file is short whatever happens, so that a close that frees it takes no time.
    pub short: bool,
}

/// A writable, block-aligned buffer of a fixed capacity. Fresh contents are UNSPECIFIED (they may
/// hold another write's bytes): whoever pads must zero.
pub trait Buf: AsRef<[u8]> + AsMut<[u8]> + 'static {
    /// What the buffer becomes when it may no longer change.
    type Bytes: SharedBytes;

    /// Keeps the first `len` bytes (`len` is a multiple of [`BLOCK`], at most the capacity) and
    /// makes them immutable. Panics otherwise: that is our bug.
    fn freeze(self, len: usize) -> Self::Bytes;
}

/// Immutable bytes, cheap to clone, local to their thread, alive while a clone is.
pub trait SharedBytes: AsRef<[u8]> + Clone + 'static {}

impl<T: AsRef<[u8]> + Clone + 'static> SharedBytes for T {}

/// A directory tree and the buffers that fit its files. Cheap to clone; local to its thread.
///
/// Directory operations are visible to the process at once, and durable only after
/// [`Disk::sync_dir`] of the directory that holds the entry.
pub trait Disk: Clone + 'static {
    /// An open file of this disk.
    type File: File<Bytes = Self::Bytes>;
    /// A writable buffer of this disk.
    type Buf: Buf<Bytes = Self::Bytes>;
    /// A frozen buffer of this disk.
    type Bytes: SharedBytes;

    /// A buffer of `len` bytes, a non-zero multiple of [`BLOCK`], contents unspecified.
    /// `None` where the memory that was fixed at open is used up: wait for a buffer to come back.
    fn alloc(&self, len: usize) -> Option<Self::Buf>;

    /// Opens `path`. Symbolic links are not followed in the last component.
    fn open(&self, path: &Path, how: Open) -> impl Future<Output = Result<Self::File, IoError>>;

    /// The names in `dir`, in no order, with true for what is no regular file: a directory, or a
    /// link or pipe that stands where a file should. Missing `dir` is an error (`is_not_found`).
    fn list(&self, dir: &Path) -> impl Future<Output = Result<Vec<(OsString, bool)>, IoError>>;

    /// Creates one directory; fine if it exists.
    fn create_dir(&self, dir: &Path) -> impl Future<Output = Result<(), IoError>>;

    /// Makes the entries of `dir` durable (creations, removals, renames before the call). After an
    /// error of `IoOp::Open` (no descriptor was left, for instance) nothing was attempted; after any
    /// other nothing may be assumed about any of them, even if a later call succeeds.
    fn sync_dir(&self, dir: &Path) -> impl Future<Output = Result<(), IoError>>;

    /// Renames a file or directory, replacing a file at `to`. Atomic; durable after syncing both
    /// directories.
    fn rename(&self, from: &Path, to: &Path) -> impl Future<Output = Result<(), IoError>>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> impl Future<Output = Result<(), IoError>>;

    /// Removes an empty directory; one that is not is an error, and stays.
    fn remove_dir(&self, dir: &Path) -> impl Future<Output = Result<(), IoError>>;
}

/// An open file. Methods take `&self`; several reads and writes may be in flight, and it is the
/// CALLER who keeps two writes in flight off the same block.
///
/// A dropped handle closes itself; [`File::close`] also reports the error.
#[expect(clippy::len_without_is_empty, reason = "the length of a file, asked of the system")]
pub trait File: 'static {
    /// Bytes read and written.
    type Bytes: SharedBytes;

    /// Reads `len` bytes at `at` (both multiples of [`BLOCK`], `len` not zero). The answer is
    /// shorter only at the end of the file, and empty beyond it; short transfers and EINTR are
    /// retried below this line.
    fn read_at(&self, at: u64, len: usize) -> impl Future<Output = Result<Self::Bytes, IoError>>;

    /// Writes all of `bytes` at `at` (both multiples of [`BLOCK`]). Ok means the device has all of
    /// it (`written`; with [`Open::dsync`], `durable`). After an error, any block of the range may hold old or
    /// new bytes. Dropping the future does not stop the write.
    fn write_at(&self, bytes: Self::Bytes, at: u64) -> impl Future<Output = Result<(), IoError>>;

    /// As [`File::write_at`] in a task of its own, which calls `then` with the outcome, on this
    /// thread, after this call has returned. For a caller with nothing to await: one task instead
    /// of two.
    fn write_then<S: Spawn>(
        self: &Rc<Self>,
        spawn: &S,
        bytes: Self::Bytes,
        at: u64,
        then: impl FnOnce(Result<(), IoError>) + 'static,
    ) {
        let file = Rc::clone(self);
        spawn.spawn(async move { then(file.write_at(bytes, at).await) });
    }

    /// Makes every write that returned before the call, and the file's length, durable
    /// (fdatasync). After an error nothing may be assumed about any of them, even if a later sync
    /// succeeds.
    fn sync(&self) -> impl Future<Output = Result<(), IoError>>;

    /// Reserves space for the first `len` bytes and raises the length to `len` where it is less;
    /// the new bytes read as zeros. Fails with `is_full` and changes no data where space is out.
    fn allocate(&self, len: u64) -> impl Future<Output = Result<(), IoError>>;

    /// Sets the length exactly (any byte count); bytes gained read as zeros.
    fn set_len(&self, len: u64) -> impl Future<Output = Result<(), IoError>>;

    /// The length in bytes; asked before anything was done through the handle it may be that of the
    /// opening. Only recovery may ask: afterwards the appender knows the logical end.
    fn len(&self) -> impl Future<Output = Result<u64, IoError>>;

    /// Closes the file and reports the error of it. Await every read and write first.
    fn close(self) -> impl Future<Output = Result<(), IoError>>;
}
