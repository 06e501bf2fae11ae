//! A file system of one file, which is a device: every write and every flush of it is recorded, and
//! writes are answered late and out of order now and then, as disks with a queue do.
//!
//! What the kernel makes of it (Linux 6.18, a loop device with direct I/O on the file): each O_DIRECT
//! write and each write of the file system above arrives as one FUSE write, or as several where it
//! is long, each cache flush as one FUSE fsync. The loop device offers no FUA, so the block layer
//! turns a FUA write into a write and then a flush. A write that comes while a flush is being
//! answered waits in the kernel. Discards and the zeroing of ranges would come as fallocate, are
//! refused, and come as plain writes then or not at all.

use std::ffi::OsStr;
use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};

use super::image::Image;
use super::journal::{Entry, Journal};
use crate::random::Random;

/// Name of the file.
pub const FILE: &str = "device";
const FILE_INO: INodeNo = INodeNo(2);
const TTL: Duration = Duration::from_secs(3600);
/// Answers that wait for others wait at most this long.
const LATE_US: u64 = 400;

/// What the device holds, and how it came to that.
#[derive(Debug)]
pub struct Record {
    /// What a read finds now.
    pub image: Image,
    /// All that has happened.
    pub journal: Journal,
}

/// A record that is still being made.
#[derive(Debug, Clone)]
pub struct Recording(Arc<Mutex<Record>>);

impl Recording {
    fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().expect("nothing panics while it holds the record")
    }

    /// Where the journal stands: the number of its entries.
    pub fn place(&self) -> usize {
        self.lock().journal.entries().len()
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.lock().journal.bytes()
    }

    /// What a read finds now.
    pub fn image(&self) -> Image {
        self.lock().image.clone()
    }

    /// The journal so far.
    pub fn journal(&self) -> Journal {
        self.lock().journal.clone()
    }
}

/// The file system to mount.
pub struct Recorder {
    recording: Recording,
    answers: Sender<Answer>,
}

/// A write that was carried out and is to be answered.
struct Answer {
    write: usize,
    len: u32,
    reply: ReplyWrite,
}

impl Recorder {
    /// A device that holds `image`; `seed` draws how late writes are answered.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn new(image: Image, seed: u64) -> io::Result<(Recorder, Recording)> {
        let record = Record { image, journal: Journal::default() };
        let recording = Recording(Arc::new(Mutex::new(record)));
        let (answers, waiting) = mpsc::channel();
        let answering = recording.clone();
        thread::Builder::new()
            .name("answers".to_owned())
            .spawn(move || answer(&answering, &waiting, Random::new(seed)))?;
        Ok((Recorder { recording: recording.clone(), answers }, recording))
    }

    fn attr(&self, ino: INodeNo) -> Option<FileAttr> {
        let len = self.recording.lock().image.len();
        let (kind, perm, size) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0o755, 0),
            FILE_INO => (FileType::RegularFile, 0o600, len),
            _ => return None,
        };
        Some(FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
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

/// Answers writes until the file system has ended. What is still unanswered when a flush is read
/// was not answered before that flush was asked for: the record is exact there. The other way
/// round a flush may be credited with an answer that was given while it was on its way.
fn answer(recording: &Recording, waiting: &Receiver<Answer>, mut random: Random) {
    while let Ok(first) = waiting.recv() {
        let mut answers = vec![first];
        if random.once_in(4) {
            thread::sleep(Duration::from_micros(random.below(LATE_US)));
        }
        answers.extend(waiting.try_iter());
        while !answers.is_empty() {
            let next = random.below(answers.len() as u64) as usize;
            let Answer { write, len, reply } = answers.swap_remove(next);
            recording.lock().journal.push(Entry::Answered { write });
            reply.written(len);
        }
    }
}

impl Filesystem for Recorder {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(|missing| {
            io::Error::new(io::ErrorKind::Unsupported, format!("this kernel's FUSE: {missing:?}"))
        })?;
        // The loop device keeps up to 128 requests in flight.
        config.set_max_background(256).map_err(|_| io::ErrorKind::InvalidInput)?;
        config.set_max_write(1 << 20).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attr(FILE_INO) {
            Some(attr) if parent == INodeNo::ROOT && name == FILE => {
                reply.entry(&TTL, &attr, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino) {
            Some(attr) => reply.attr(&TTL, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Past the page cache, and without one writer at a time: a queue as a disk has it.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        self.recording.lock().image.read(offset, &mut bytes);
        reply.data(&bytes);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let bytes = Bytes::copy_from_slice(data);
        let len = data.len() as u32;
        let mut record = self.recording.lock();
        if offset.saturating_add(data.len() as u64) > record.image.len() {
            return reply.error(Errno::EFBIG);
        }
        record.image.write(offset, data);
        let write = record.journal.push(Entry::Write { at: offset, bytes });
        drop(record);
        // The thread is there until the file system has ended.
        let _ = self.answers.send(Answer { write, len, reply });
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.recording.lock().journal.push(Entry::Flush);
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A descriptor was closed: nothing of a disk's.
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EOPNOTSUPP);
    }
}
