//! A file system that refuses O_DIRECT, as some network and user space file systems do: files in
//! memory, mounted through FUSE, and every open with O_DIRECT is answered EINVAL.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};

const TTL: Duration = Duration::from_secs(1);

/// A mounted file system; unmounted when dropped.
pub(crate) struct Mounted {
    _session: BackgroundSession,
}

/// Mounts one on `dir`, an empty directory.
pub(crate) fn mount(dir: &Path) -> Mounted {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("refusing".to_owned())];
    let session = fuser::spawn_mount(RefusingFs::default(), dir, &config)
        .unwrap_or_else(|error| panic!("this test needs root and /dev/fuse: {error}"));
    Mounted { _session: session }
}

#[derive(Default)]
struct RefusingFs {
    nodes: Mutex<Nodes>,
}

struct Nodes {
    next: u64,
    all: HashMap<u64, Node>,
}

enum Node {
    Dir(BTreeMap<OsString, u64>),
    File(Vec<u8>),
}

impl Default for Nodes {
    fn default() -> Self {
        let root = (INodeNo::ROOT.0, Node::Dir(BTreeMap::new()));
        Nodes { next: INodeNo::ROOT.0 + 1, all: HashMap::from([root]) }
    }
}

impl Nodes {
    fn dir(&mut self, ino: INodeNo) -> Result<&mut BTreeMap<OsString, u64>, Errno> {
        match self.all.get_mut(&ino.0) {
            Some(Node::Dir(entries)) => Ok(entries),
            Some(Node::File(_)) => Err(Errno::ENOTDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn file(&mut self, ino: INodeNo) -> Result<&mut Vec<u8>, Errno> {
        match self.all.get_mut(&ino.0) {
            Some(Node::File(bytes)) => Ok(bytes),
            Some(Node::Dir(_)) => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn find(&mut self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let found = self.dir(parent)?.get(name).copied().ok_or(Errno::ENOENT)?;
        self.attr(INodeNo(found))
    }

    fn add(&mut self, parent: INodeNo, name: &OsStr, node: Node) -> Result<FileAttr, Errno> {
        let ino = self.next;
        let entries = self.dir(parent)?;
        if entries.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        entries.insert(name.to_owned(), ino);
        self.next += 1;
        self.all.insert(ino, node);
        self.attr(INodeNo(ino))
    }

    fn rename(&mut self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr)) -> Result<(), Errno> {
        self.dir(to.0)?;
        let moved = self.dir(from.0)?.remove(from.1).ok_or(Errno::ENOENT)?;
        self.dir(to.0)?.insert(to.1.to_owned(), moved);
        Ok(())
    }

    fn attr(&mut self, ino: INodeNo) -> Result<FileAttr, Errno> {
        let (kind, perm, size) = match self.all.get(&ino.0).ok_or(Errno::ENOENT)? {
            Node::Dir(_) => (FileType::Directory, 0o755, 0),
            Node::File(bytes) => (FileType::RegularFile, 0o644, bytes.len() as u64),
        };
        let time = UNIX_EPOCH;
        Ok(FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl RefusingFs {
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().expect("no panic in here")
    }
}

fn refuses(flags: i32) -> bool {
    flags & libc::O_DIRECT != 0
}

fn entry(found: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match found {
        Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn done(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for RefusingFs {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.nodes().find(parent, name), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.nodes().attr(ino) {
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
        let mut nodes = self.nodes();
        let resized = match size {
            Some(size) => nodes.file(ino).map(|bytes| bytes.resize(size as usize, 0)),
            None => Ok(()),
        };
        match resized.and_then(|()| nodes.attr(ino)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        entry(self.nodes().add(parent, name, Node::Dir(BTreeMap::new())), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut nodes = self.nodes();
        // The node stays: it may be open, and this file system does not live long.
        let removed = nodes.dir(parent).and_then(|e| e.remove(name).ok_or(Errno::ENOENT));
        done(removed.map(drop), reply);
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
        done(self.nodes().rename((parent, name), (newparent, newname)), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.nodes().file(ino).map(drop) {
            Ok(()) if refuses(flags.0) => reply.error(Errno::EINVAL),
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        if refuses(flags) {
            return reply.error(Errno::EINVAL);
        }
        match self.nodes().add(parent, name, Node::File(Vec::new())) {
            Ok(attr) => {
                reply.created(&TTL, &attr, Generation(0), FileHandle(0), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
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
        match self.nodes().file(ino) {
            Ok(bytes) => {
                let start = bytes.len().min(offset as usize);
                let end = bytes.len().min(start + size as usize);
                reply.data(&bytes[start..end]);
            }
            Err(error) => reply.error(error),
        }
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
        match self.nodes().file(ino) {
            Ok(bytes) => {
                let (start, end) = (offset as usize, offset as usize + data.len());
                bytes.resize(bytes.len().max(end), 0);
                bytes[start..end].copy_from_slice(data);
                reply.written(data.len() as u32);
            }
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        let end = (offset + length) as usize;
        let grown = self.nodes().file(ino).map(|bytes| bytes.resize(bytes.len().max(end), 0));
        done(grown, reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut nodes = self.nodes();
        let entries: Vec<_> = match nodes.dir(ino) {
            Ok(entries) => entries.iter().map(|(name, ino)| (name.clone(), *ino)).collect(),
            Err(error) => return reply.error(error),
        };
        for (number, (name, ino)) in entries.iter().enumerate().skip(offset as usize) {
            let kind = match nodes.attr(INodeNo(*ino)) {
                Ok(attr) => attr.kind,
                Err(error) => return reply.error(error),
            };
            if reply.add(INodeNo(*ino), number as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
