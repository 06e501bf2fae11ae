//! A directory behind FUSE: every operation reaches the files of a plain directory, except where a
//! rule says otherwise. O_DIRECT is accepted and the page cache is out of the way, so what the
//! engine submits is what arrives here, and what is answered here is what the engine sees.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use rustix::mount::UnmountFlags;

use super::nodes::Nodes;
use super::rules::{Op, Rule, Rules, Subject, Told, Wait};

/// How long the kernel may remember names and attributes: what changes, changes through it.
const TTL: Duration = Duration::from_secs(1);
const BLOCK: usize = 4096;
/// Past the page cache; and closing asks nothing, so that a process whose threads are ended one by
/// one does not wait for an answer of its own server.
const OPENED: FopenFlags = FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_NOFLUSH);
/// Threads that answer the kernel. What waits does so on a thread of its own.
const SERVERS: usize = 2;

/// A mounted disk that misbehaves on demand. Dropped, it ends the trouble and unmounts.
///
/// The server's threads touch nothing of the engine's and never wait for it, so both may live in one
/// process.
pub struct Disk {
    rules: Arc<Rules>,
    point: PathBuf,
    _session: BackgroundSession,
}

impl Disk {
    /// Mounts the files of `backing` on `point`, both existing directories. Root only.
    ///
    /// Direct I/O is asynchronous, as with a real disk: whoever submits goes on at once. (Without
    /// FUSE_ASYNC_DIO io_uring carries it out on the thread that submits, so that one that is held
    /// holds a whole shard; and it goes on after a short transfer at the wrong place, as FUSE does
    /// not move the file's position.) The kernel answers EIO to such a write that is cut short.
    ///
    /// # Errors
    /// Says so where the caller may not mount, or has no /dev/fuse.
    pub fn mount(backing: &Path, point: &Path) -> io::Result<Disk> {
        let rules = Arc::new(Rules::default());
        let (nodes, own) = (Mutex::new(Nodes::new(backing)), Arc::clone(&rules));
        let inner = Inner { nodes, rules: own };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("corelog-hostile".to_owned())];
        config.n_threads = Some(SERVERS);
        let session = fuser::spawn_mount(Passing(Arc::new(inner)), point, &config);
        let session = session.map_err(|error| {
            let text = format!("a hostile disk needs root and /dev/fuse: {error}");
            io::Error::new(error.kind(), text)
        })?;
        Ok(Disk { rules, point: point.to_owned(), _session: session })
    }

    /// From now on these rules are in force, after those that are already.
    pub fn begin(&self, rules: &[Rule]) {
        self.rules.begin(rules);
    }

    /// No rule is in force any more. What was held goes on.
    pub fn end(&self) {
        self.rules.end();
    }

    /// How often each rule was applied so far, the rules of earlier troubles included.
    #[must_use]
    pub fn hits(&self) -> Vec<(Rule, u64)> {
        self.rules.hits()
    }

    /// Ends this process with an error unless the answer is dropped within `limit`: a test that
    /// hangs says so, in the words of `what`, and leaves no mount behind.
    pub fn watch(&self, limit: Duration, what: impl Into<String>) -> Watch {
        let (alive, gone) = mpsc::channel();
        let (rules, point, what) = (Arc::clone(&self.rules), self.point.clone(), what.into());
        thread::spawn(move || {
            if gone.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{what}: not at its end after {limit:?}; held: {}", rules.held());
                rules.end();
                let _ = Command::new("umount").arg("-l").arg(&point).status();
                std::process::exit(101);
            }
        });
        Watch { _alive: alive }
    }

    /// Operations that are held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.rules.held()
    }
}

/// See [`Disk::watch`].
#[must_use = "dropped, it watches no more"]
pub struct Watch {
    _alive: mpsc::Sender<()>,
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.rules.end();
        // Lazily: the kernel closes files a moment after their last user has let go of them.
        let _ = rustix::mount::unmount(&self.point, UnmountFlags::DETACH);
    }
}

struct Passing(Arc<Inner>);

struct Inner {
    nodes: Mutex<Nodes>,
    rules: Arc<Rules>,
}

impl Inner {
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Errno> {
        let mut nodes = self.nodes();
        fs::rename(nodes.real(from), nodes.real(to))?;
        nodes.renamed(from, to);
        Ok(())
    }

    fn unlink(&self, path: &Path, dir: bool) -> Result<(), Errno> {
        let mut nodes = self.nodes();
        let real = nodes.real(path);
        if dir {
            fs::remove_dir(real)?
        } else {
            fs::remove_file(real)?
        }
        nodes.removed(path);
        Ok(())
    }

    fn make_dir(&self, path: &Path) -> Result<fuser::FileAttr, Errno> {
        let mut nodes = self.nodes();
        fs::create_dir(nodes.real(path))?;
        nodes.find(path.to_owned(), None)
    }

    fn read(&self, ino: INodeNo, at: u64, len: usize, told: Told) -> Result<Vec<u8>, Errno> {
        let file = self.nodes().file(ino)?;
        let mut bytes = vec![0; part(len, told)];
        let mut done = 0;
        while done < bytes.len() {
            match file.read_at(&mut bytes[done..], at + done as u64)? {
                0 => break,
                more => done += more,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    fn write(&self, ino: INodeNo, at: u64, bytes: &[u8], told: Told) -> Result<u32, Errno> {
        let file = self.nodes().file(ino)?;
        let bytes = &bytes[..part(bytes.len(), told)];
        file.write_all_at(bytes, at)?;
        Ok(bytes.len() as u32)
    }
}

/// How much of `len` bytes is transferred.
fn part(len: usize, told: Told) -> usize {
    let half = len / 2 / BLOCK * BLOCK;
    match told {
        Told::Short if half > 0 => half,
        Told::Ragged if half > 0 => half + 512,
        _ => len,
    }
}

impl Passing {
    /// Asks the rules about `op`, and runs `act` with what they say: at once on this thread, or
    /// after a wait on another one, so that nothing else is held up.
    fn serve(
        &self,
        op: Op,
        subject: Subject,
        act: impl FnOnce(&Inner, Result<Told, Errno>) + Send + 'static,
    ) {
        let (wait, told) = self.0.rules.meet(op, &subject);
        let told = match told {
            Told::Errno(errno) => Err(Errno::from_i32(errno)),
            told => Ok(told),
        };
        if wait == Wait::No {
            return act(&self.0, told);
        }
        let inner = Arc::clone(&self.0);
        thread::spawn(move || {
            inner.rules.wait(wait);
            act(&inner, told);
        });
    }

    fn subject(&self, ino: INodeNo) -> Subject {
        self.0.nodes().subject(ino)
    }

    /// [`Passing::serve`] for what only succeeds or not.
    fn plain(
        &self,
        op: Op,
        subject: Subject,
        reply: ReplyEmpty,
        act: impl FnOnce(&Inner) -> Result<(), Errno> + Send + 'static,
    ) {
        self.serve(op, subject, move |inner, told| match told.and_then(|_| act(inner)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }
}

/// The whole path of a name, or an answer to the request.
macro_rules! path {
    ($self:ident, $parent:expr, $name:expr, $reply:ident) => {{
        let path = $self.0.nodes().path($parent, $name);
        match path {
            Ok(path) => path,
            Err(error) => return $reply.error(error),
        }
    }};
}

impl Filesystem for Passing {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // One that is held must not keep others in the kernel's queue.
        let _ = config.set_max_background(1024);
        let asynchronous = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        asynchronous.map_err(|_| io::Error::other("a kernel with FUSE_ASYNC_DIO is needed"))
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let path = path!(self, parent, name, reply);
        self.serve(Op::Lookup, Subject::file(&path), move |inner, told| {
            match told.and_then(|_| inner.nodes().find(path, None)) {
                Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
                Err(error) => reply.error(error),
            }
        });
    }

    fn forget(&self, _: &Request, ino: INodeNo, _: u64) {
        self.0.nodes().forget(ino);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.nodes().attr(ino) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let answer = |attr: Result<fuser::FileAttr, Errno>, reply: ReplyAttr| match attr {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        };
        let Some(size) = size else { return answer(self.0.nodes().attr(ino), reply) };
        self.serve(Op::Truncate, self.subject(ino), move |inner, told| {
            let cut = |_| {
                let file = inner.nodes().file(ino)?;
                file.set_len(size)?;
                inner.nodes().attr(ino)
            };
            answer(told.and_then(cut), reply);
        });
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let path = path!(self, parent, name, reply);
        self.serve(Op::MakeDir, Subject::dir(&path), move |inner, told| {
            match told.and_then(|_| inner.make_dir(&path)) {
                Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
                Err(error) => reply.error(error),
            }
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let path = path!(self, parent, name, reply);
        let subject = Subject::file(&path);
        self.plain(Op::Unlink, subject, reply, move |inner| inner.unlink(&path, false));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let path = path!(self, parent, name, reply);
        let subject = Subject::dir(&path);
        self.plain(Op::Unlink, subject, reply, move |inner| inner.unlink(&path, true));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let from = path!(self, parent, name, reply);
        let to = path!(self, newparent, newname, reply);
        let subject = Subject::file(&to);
        self.plain(Op::Rename, subject, reply, move |inner| inner.rename(&from, &to));
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.serve(Op::Open, self.subject(ino), move |inner, told| {
            match told.and_then(|_| inner.nodes().file(ino)) {
                Ok(_) => reply.opened(FileHandle(0), OPENED),
                Err(error) => reply.error(error),
            }
        });
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.serve(Op::Open, self.subject(ino), move |_, told| match told {
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(error),
        });
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let path = path!(self, parent, name, reply);
        self.serve(Op::Create, Subject::file(&path), move |inner, told| {
            let mut how = OpenOptions::new();
            how.read(true).write(true).create(true).mode(mode);
            how.create_new(flags & libc::O_EXCL != 0);
            match told.and_then(|_| inner.nodes().find(path, Some(&how))) {
                Ok(attr) => reply.created(&TTL, &attr, Generation(0), FileHandle(0), OPENED),
                Err(error) => reply.error(error),
            }
        });
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.serve(Op::Read, self.subject(ino), move |inner, told| {
            match told.and_then(|told| inner.read(ino, offset, size as usize, told)) {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => reply.error(error),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        self.serve(Op::Write, self.subject(ino), move |inner, told| {
            match told.and_then(|told| inner.write(ino, offset, &data, told)) {
                Ok(written) => reply.written(written),
                Err(error) => reply.error(error),
            }
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.plain(Op::Allocate, self.subject(ino), reply, move |inner| {
            let file = inner.nodes().file(ino)?;
            let mode = rustix::fs::FallocateFlags::from_bits_retain(mode.cast_unsigned());
            rustix::fs::fallocate(&file, mode, offset, length).map_err(io::Error::from)?;
            Ok(())
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    // No rig here cuts the power, so a sync that is answered need not reach the device below.
    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data: bool, reply: ReplyEmpty) {
        let op = if data { Op::Fdatasync } else { Op::Fsync };
        self.plain(op, self.subject(ino), reply, |_| Ok(()));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.plain(Op::SyncDir, self.subject(ino), reply, |_| Ok(()));
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.serve(Op::List, self.subject(ino), move |inner, told| {
            match told.and_then(|_| entries(inner, ino)) {
                Ok(entries) => {
                    let rest = entries.iter().enumerate().skip(offset as usize);
                    for (number, (name, kind)) in rest {
                        // The number only has to be one that is not 0.
                        if reply.add(INodeNo(u64::MAX), number as u64 + 1, *kind, name) {
                            break;
                        }
                    }
                    reply.ok();
                }
                Err(error) => reply.error(error),
            }
        });
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        self.serve(Op::StatFs, self.subject(ino), move |inner, told| {
            let root = inner.nodes().real(Path::new(""));
            let ask = |_| rustix::fs::statvfs(&root).map_err(|e| Errno::from(io::Error::from(e)));
            match told.and_then(ask) {
                Ok(stat) => reply.statfs(
                    stat.f_blocks,
                    stat.f_bfree,
                    stat.f_bavail,
                    stat.f_files,
                    stat.f_ffree,
                    BLOCK as u32,
                    255,
                    BLOCK as u32,
                ),
                Err(error) => reply.error(error),
            }
        });
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.serve(Op::Seek, self.subject(ino), move |inner, told| {
            let seek = |_| {
                let file = inner.nodes().file(ino)?;
                let to = match whence {
                    libc::SEEK_DATA => rustix::fs::SeekFrom::Data(offset.cast_unsigned()),
                    libc::SEEK_HOLE => rustix::fs::SeekFrom::Hole(offset.cast_unsigned()),
                    _ => return Err(Errno::EINVAL),
                };
                Ok(rustix::fs::seek(&*file, to).map_err(io::Error::from)?)
            };
            match told.and_then(seek) {
                Ok(at) => reply.offset(at.cast_signed()),
                Err(error) => reply.error(error),
            }
        });
    }
}

/// Names and kinds of what is in a directory, in one order.
fn entries(inner: &Inner, ino: INodeNo) -> Result<Vec<(std::ffi::OsString, FileType)>, Errno> {
    let dir = inner.nodes().dir(ino)?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = FileType::from_std(entry.file_type()?).ok_or(Errno::EIO)?;
        entries.push((entry.file_name(), kind));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}
