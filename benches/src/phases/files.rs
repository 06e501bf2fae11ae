//! The segment files read back without the engine: every byte compared, both layers of checksums.
//!
//! The page cache is told to let go of each file, and O_DIRECT passes it by in any case, so the
//! bytes come from the device. The raw ring of the ceiling reads them; no engine code is shared.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use corelog_format::{BATCH_HEADER_LEN, BatchHeader, UnverifiedBatch};
use rustix::fs::{Advice, Mode, OFlags, fadvise, open};

use super::Stage;
use super::moved::{Moved, Operation};
use crate::ceiling::{Ring, Slots};
use crate::check::{Checker, InFile, Mismatch, What};
use crate::plan::Sent;
use crate::run_error::RunError;

/// Bytes of one read.
const BLOCK: usize = 1 << 20;

/// Reads in flight of one reader.
const DEPTH: usize = 4;

/// What is read back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    /// The directory that holds a directory for each partition.
    pub(crate) dir: &'a Path,
    pub(crate) partitions: u32,
    pub(crate) readers: u32,
    /// What was sent; None where that is not known, as after a crash.
    pub(crate) sent: Option<&'a Sent>,
    pub(crate) producers: u16,
    /// What is old may have been deleted.
    pub(crate) is_retained: bool,
}

/// Where the engine keeps the partitions of a topic, below its data directory.
pub(crate) fn topic_dir(data: &Path, stream: u32, topic: u32) -> PathBuf {
    data.join(format!("streams/{stream}/topics/{topic}/partitions"))
}

/// Reads all partitions, each by one of the readers.
pub(crate) fn run(stage: Stage<'_>, written: Written<'_>) -> Result<Moved, RunError> {
    let readers = written.readers.clamp(1, written.partitions.max(1));
    let start = Instant::now();
    let read: Vec<Result<Moved, RunError>> = thread::scope(|scope| {
        let work = move |reader: u32| {
            let mut moved = Moved::new(start);
            for partition in (reader..written.partitions).step_by(readers as usize) {
                if !read_partition(stage, written, partition, &mut moved)? {
                    break;
                }
            }
            Ok(moved)
        };
        let threads: Vec<_> =
            (0..readers).map(|reader| scope.spawn(move || work(reader))).collect();
        threads.into_iter().map(|one| one.join().expect("a reader panicked")).collect()
    });
    let mut all = Moved::new(start);
    for one in read {
        all.merge(&one?);
    }
    Ok(all)
}

/// False when the user stopped it.
fn read_partition(
    stage: Stage<'_>,
    written: Written<'_>,
    partition: u32,
    moved: &mut Moved,
) -> Result<bool, RunError> {
    let Stage { content, round, .. } = stage;
    let checker = if written.is_retained {
        Checker::retained(content, round, partition, written.producers)
    } else {
        Checker::new(content, round, partition, written.producers)
    };
    let dir = written.dir.join(partition.to_string());
    let mut reader = Reader { checker, path: PathBuf::new(), position: 0, batch: Vec::new() };
    for path in segments(&dir).map_err(|source| failed(&dir, source))? {
        let io = |source| failed(&path, source);
        reader.path.clone_from(&path);
        (reader.position, reader.batch) = (0, Vec::new());
        if !reader.read_file(stage, moved).map_err(|error| error.or_io(io))? {
            return Ok(false);
        }
    }
    moved.messages += reader.checker.seen();
    if let Some(sent) = written.sent {
        reader.checker.end_log(sent.batches(partition))?;
    }
    Ok(true)
}

/// The logs of a partition, oldest first: their names are their first offsets.
fn segments(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            logs.push(path);
        }
    }
    logs.sort();
    Ok(logs)
}

fn failed(path: &Path, source: io::Error) -> RunError {
    RunError::Engine { doing: format!("reading back {}", path.display()), source: source.into() }
}

/// What a file's reader meets.
enum ReadError {
    Io(io::Error),
    Mismatch(Mismatch),
}

impl ReadError {
    fn or_io(self, io: impl FnOnce(io::Error) -> RunError) -> RunError {
        match self {
            ReadError::Io(error) => io(error),
            ReadError::Mismatch(mismatch) => RunError::Mismatch(mismatch),
        }
    }
}

/// Puts batches together from blocks and checks each.
struct Reader<'a> {
    checker: Checker<'a>,
    path: PathBuf,
    /// Of the first byte of `batch`, in the file.
    position: u64,
    /// Bytes of a batch that has not come whole.
    batch: Vec<u8>,
}

impl Reader<'_> {
    /// False when the user stopped it.
    fn read_file(&mut self, stage: Stage<'_>, moved: &mut Moved) -> Result<bool, ReadError> {
        let file = open_cold(&self.path).map_err(ReadError::Io)?;
        let len = file.metadata().map_err(ReadError::Io)?.len();
        let blocks = len.div_ceil(BLOCK as u64);
        if blocks == 0 {
            return Ok(true);
        }
        let depth = DEPTH.min(usize::try_from(blocks).unwrap_or(DEPTH));
        let slots = Slots::new(depth, BLOCK).map_err(ReadError::Io)?;
        let mut ring = Ring::new(file, slots).map_err(ReadError::Io)?;
        let mut slots: Vec<(Instant, Option<usize>)> = vec![(Instant::now(), None); depth];
        for (slot, state) in slots.iter_mut().enumerate() {
            *state = (Instant::now(), None);
            ring.read(slot, (slot * BLOCK) as u64);
        }
        for block in 0..blocks {
            if stage.interrupt.is_raised() {
                return Ok(false);
            }
            let slot = (block % depth as u64) as usize;
            let (sent, got) = wait_for(&mut ring, &mut slots, slot).map_err(ReadError::Io)?;
            let bytes = &ring.idle_slot(slot)[..got];
            let operation =
                Operation { intended: None, sent, bytes: bytes.len() as u64, messages: 0 };
            moved.record(operation, Instant::now());
            let seen = self.checker.seen();
            self.feed(bytes, len)?;
            stage.live.add(operation.bytes, self.checker.seen() - seen);
            let next = block + depth as u64;
            if next < blocks {
                slots[slot] = (Instant::now(), None);
                ring.read(slot, next * BLOCK as u64);
            }
        }
        if !self.batch.is_empty() {
            return Err(self.mismatch(What::Cut));
        }
        Ok(true)
    }

    /// Takes the file's next bytes; the file has `file_len`.
    fn feed(&mut self, mut bytes: &[u8], file_len: u64) -> Result<(), ReadError> {
        loop {
            let needed = self.needed(file_len)?;
            let (now, rest) = bytes.split_at(bytes.len().min(needed - self.batch.len()));
            self.batch.extend_from_slice(now);
            bytes = rest;
            if self.batch.len() < needed {
                return Ok(());
            }
            if needed > BATCH_HEADER_LEN {
                self.check_batch()?;
            }
        }
    }

    /// Bytes that `batch` has to hold: a header, then all that the header says.
    fn needed(&mut self, file_len: u64) -> Result<usize, ReadError> {
        if self.batch.len() < BATCH_HEADER_LEN {
            return Ok(BATCH_HEADER_LEN);
        }
        let left = file_len - self.position;
        match BatchHeader::parse(&self.batch) {
            Ok(header) if header.batch_length <= BATCH_HEADER_LEN as u64 => {
                let error = "a batch without a message".to_owned();
                Err(self.mismatch(What::Invalid { error }))
            }
            Ok(header) if header.batch_length <= left => Ok(header.batch_length as usize),
            Ok(header) => {
                let error = format!("{} bytes long, {left} are left", header.batch_length);
                Err(self.mismatch(What::Invalid { error }))
            }
            Err(error) => Err(self.mismatch(What::Invalid { error: error.to_string() })),
        }
    }

    /// The batch has come whole: its content, then its checksums.
    fn check_batch(&mut self) -> Result<(), ReadError> {
        let batch = std::mem::take(&mut self.batch);
        self.checker.feed(&batch).map_err(|mismatch| self.in_file(mismatch))?;
        let end = self.checker.next_offset();
        self.checker.end_reply(end).map_err(|mismatch| self.in_file(mismatch))?;
        // Equal bytes have equal checksums; that the checksums are those of the bytes is the other
        // half of the promise.
        UnverifiedBatch::new(&batch)
            .and_then(UnverifiedBatch::verify)
            .map_err(|error| self.mismatch(What::Invalid { error: error.to_string() }))?;
        self.position += batch.len() as u64;
        self.batch = batch;
        self.batch.clear();
        Ok(())
    }

    fn mismatch(&self, what: What) -> ReadError {
        self.in_file(self.checker.mismatch(what))
    }

    fn in_file(&self, mismatch: Mismatch) -> ReadError {
        let file = Some(InFile { path: self.path.clone(), position: self.position });
        ReadError::Mismatch(Mismatch { file, ..mismatch })
    }
}

/// Waits for the read of `slot`: when it was sent and how many bytes came.
fn wait_for(
    ring: &mut Ring,
    slots: &mut [(Instant, Option<usize>)],
    slot: usize,
) -> io::Result<(Instant, usize)> {
    loop {
        if let (sent, Some(bytes)) = slots[slot] {
            return Ok((sent, bytes));
        }
        ring.submit(1)?;
        while let Some(done) = ring.ended() {
            slots[done.slot].1 = Some(done.result? as usize);
        }
    }
}

/// Opens a file whose pages are not in the cache any more, and will not be.
fn open_cold(path: &Path) -> io::Result<File> {
    let file = open(path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?;
    let file = File::from(file);
    file.sync_data()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
