//! The data directory that is harmed: written by the engine in a process of its own, which closes
//! it or is killed, and then read here without the engine.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use corelog::{Ack, Client, Engine, PartitionId, TopicConfig};
use corelog_format::{
    BATCH_HEADER_LEN, BatchHeader, ClockRecord, FileKind, Manifest, Mark, SLOT_LEN,
    UnverifiedBatch, first_nonzero, parse_file_name,
};

use crate::content::{BatchKey, Content};
use crate::runtime;

/// Batches of each partition: two sealed segments of 1 MiB and a third of some 100 KiB.
const BATCHES: u64 = 500;
const SEED: u64 = 4;
const BATCH_BYTES: usize = 12 << 10;
/// These many of them come after the manifests' marks had time to move.
const LATE: u64 = 6;
/// The durable mark lags by a second at most.
const MARK_LAG: Duration = Duration::from_millis(1_200);
/// Appends on their way at a time.
const WINDOW: usize = 32;
/// The stamps are that far ahead of the machine's clock: only the clock record can tell the next
/// life where time stands.
const AHEAD_US: u64 = 3_600_000_000;

/// How the life that wrote the data ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The engine was closed.
    Clean,
    /// The process was killed when everything was answered.
    Killed,
}

/// A data directory at rest and what is known about it.
#[derive(Debug)]
pub struct Specimen {
    pub(super) dir: PathBuf,
    pub(super) partitions: Vec<Partition>,
}

/// One partition of it.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) id: PartitionId,
    /// Its directory, below the data directory.
    pub(super) dir: PathBuf,
    /// All batches, in order.
    pub(super) batches: Vec<Stored>,
    /// First offset and length of each log, ascending.
    pub(super) logs: Vec<(u64, u64)>,
    pub(super) mark: Mark,
}

/// A batch where it lies.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) segment: u64,
    pub(super) position: u64,
    pub(super) base_offset: u64,
    pub(super) end_offset: u64,
    pub(super) time: u64,
    pub(super) bytes: Bytes,
}

impl Stored {
    pub(super) fn position_end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }
}

/// The topics: stream, topic, and what they differ in.
fn topics() -> [(u32, u32, TopicConfig); 3] {
    let small = TopicConfig { segment_bytes: 1 << 20, ..TopicConfig::default() };
    [
        (0, 0, TopicConfig { partitions: 3, ..small.clone() }),
        (
            0,
            1,
            TopicConfig { partitions: 3, enforce_fsync: true, index_step: 4096, ..small.clone() },
        ),
        (
            1,
            0,
            TopicConfig {
                partitions: 2,
                preallocate_segments: true,
                index_step: 16 << 10,
                ..small
            },
        ),
    ]
}

fn ids() -> Vec<PartitionId> {
    let of = |(stream, topic, config): (u32, u32, TopicConfig)| {
        (0..config.partitions).map(move |partition| PartitionId::new(stream, topic, partition))
    };
    topics().into_iter().flat_map(of).collect()
}

/// Batch `number` of a partition as its producer sends it.
pub(super) fn sent(id: PartitionId, number: u64) -> Bytes {
    Content::new(SEED).bytes_max(BATCH_BYTES).batch(id, BatchKey::new(0, 0, number as u32))
}

/// The child's part: writes the directory, says so on standard output, and closes it, or waits to
/// be killed.
///
/// # Errors
/// Whatever the engine answers; nothing is wrong with the disk, so there should be none.
pub fn write_and_wait(dir: &Path, ending: Ending) -> Result<(), Box<dyn std::error::Error>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64;
    let mut clock = ClockRecord { sequence: 1, ceiling_us: now + AHEAD_US }.encode().to_vec();
    clock.resize(2 * SLOT_LEN, 0);
    fs::create_dir_all(dir)?;
    fs::write(dir.join("clock"), clock)?;
    let engine = super::judge::builder(dir).open()?;
    let client = engine.client();
    for (stream, topic, config) in topics() {
        crate::topics::create_topic(&client, stream, topic, config)?;
    }
    for id in ids() {
        append(&client, id, 0..BATCHES - LATE)?;
    }
    std::thread::sleep(MARK_LAG);
    for id in ids() {
        append(&client, id, BATCHES - LATE..BATCHES)?;
    }
    if ending == Ending::Clean {
        engine.close_blocking()?;
        println!("written");
        return Ok(());
    }
    println!("written");
    io::stdout().flush()?;
    wait_for_the_end(engine)
}

fn wait_for_the_end(_open: Engine) -> ! {
    loop {
        std::thread::park();
    }
}

fn append(
    client: &Client,
    id: PartitionId,
    numbers: std::ops::Range<u64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u64> = numbers.collect();
    for window in numbers.chunks(WINDOW) {
        let calls: Vec<_> =
            window.iter().map(|n| client.append(id, sent(id, *n), Ack::Written)).collect();
        for call in calls {
            call.wait()?;
        }
    }
    Ok(())
}

impl Specimen {
    /// Lets `program` write a data directory below `parent` (see [`write_and_wait`]) and reads it.
    ///
    /// # Errors
    /// The child failed, or what it wrote is not what it was told to.
    pub fn make(parent: &Path, ending: Ending, program: &Path) -> io::Result<Specimen> {
        let dir = parent.join("pristine");
        let end = match ending {
            Ending::Clean => "clean",
            Ending::Killed => "killed",
        };
        let mut child = Command::new(program)
            .arg(runtime::flag())
            .arg("write")
            .arg(&dir)
            .arg(end)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let said = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        if ending == Ending::Killed {
            child.kill()?;
        }
        let status = child.wait()?;
        match said {
            Some(Ok(_)) if line == "written\n" => Specimen::read(dir),
            _ => Err(io::Error::other(format!("the writing child ended early: {status}"))),
        }
    }

    fn read(dir: PathBuf) -> io::Result<Specimen> {
        let partitions = ids().into_iter().map(|id| Partition::read(&dir, id));
        Ok(Specimen { partitions: partitions.collect::<io::Result<_>>()?, dir })
    }
}

impl Partition {
    fn read(root: &Path, id: PartitionId) -> io::Result<Partition> {
        let PartitionId { stream, topic, partition } = id;
        let dir = PathBuf::from(format!("streams/{stream}/topics/{topic}/partitions/{partition}"));
        let manifest = fs::read(root.join(&dir).join("manifest"))?;
        let (a, b) = manifest.split_at(SLOT_LEN);
        let picked = Manifest::pick(a, b).map_err(io::Error::other)?;
        let (manifest, _) = picked.ok_or_else(|| io::Error::other("no manifest was written"))?;
        let mut logs = Vec::new();
        for entry in fs::read_dir(root.join(&dir))? {
            let entry = entry?;
            let name = entry.file_name();
            if let Some((first, FileKind::Log)) = name.to_str().and_then(parse_file_name) {
                logs.push((first, entry.metadata()?.len()));
            }
        }
        logs.sort_unstable();
        let mut read = Partition { id, dir, batches: Vec::new(), logs, mark: manifest.mark };
        for (first, _) in read.logs.clone() {
            let bytes = fs::read(root.join(read.log(first)))?;
            read.walk(first, &bytes)?;
        }
        if read.batches.len() as u64 != BATCHES || read.logs.len() < 3 {
            let (batches, logs) = (read.batches.len(), read.logs.len());
            return Err(io::Error::other(format!("{id}: {batches} batches in {logs} logs")));
        }
        Ok(read)
    }

    /// Adds the batches of one log, each against what was sent.
    fn walk(&mut self, segment: u64, log: &[u8]) -> io::Result<()> {
        let mut rest = log;
        while first_nonzero(rest).is_some() {
            let position = (log.len() - rest.len()) as u64;
            let (batch, behind) = UnverifiedBatch::split_first(rest).map_err(io::Error::other)?;
            let batch = batch.verify().map_err(io::Error::other)?;
            let (header, bytes) = (*batch.header(), Bytes::copy_from_slice(batch.bytes()));
            let sent = sent(self.id, self.batches.len() as u64);
            let next = self.batches.last().map_or(0, |last| last.end_offset);
            if bytes[BATCH_HEADER_LEN..] != sent[BATCH_HEADER_LEN..] || header.base_offset != next {
                return Err(io::Error::other(format!("{}: not what was sent", self.id)));
            }
            self.batches.push(Stored {
                segment,
                position,
                base_offset: header.base_offset,
                end_offset: next + u64::from(header.message_count),
                time: header.base_timestamp,
                bytes,
            });
            rest = behind;
        }
        Ok(())
    }

    /// Path of a log below the data directory.
    pub(super) fn log(&self, first: u64) -> PathBuf {
        self.dir.join(corelog_format::segment_file_name(first))
    }

    /// Path of an index below the data directory.
    pub(super) fn index(&self, first: u64) -> PathBuf {
        self.dir.join(corelog_format::index_file_name(first))
    }

    pub(super) fn manifest(&self) -> PathBuf {
        self.dir.join("manifest")
    }

    pub(super) fn end_offset(&self) -> u64 {
        self.batches.last().map_or(0, |last| last.end_offset)
    }

    /// First offset of the active segment.
    pub(super) fn active(&self) -> u64 {
        self.logs.last().map_or(0, |(first, _)| *first)
    }

    /// Where the batches of a log end.
    pub(super) fn log_end(&self, segment: u64) -> u64 {
        let of = self.batches.iter().filter(|batch| batch.segment == segment);
        of.map(Stored::position_end).max().unwrap_or(0)
    }
}

/// The header of stored or sent bytes.
pub(super) fn header(bytes: &[u8]) -> Option<BatchHeader> {
    BatchHeader::parse(bytes).ok()
}
