//! A partition on the simulated disk, and a model of what it must hold.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod situations;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use corelog_format::{
    Batch, BatchBuilder, BatchHeader, ConsumerKind, Expect, Message, Step, UnverifiedBatch, scan,
};
use corelog_io::sim::{Rng, Sim, SimPlatform};
use corelog_storage::{
    Ack, AdmittedBatch, Answer, AppendError, Appended, ConsumerKey, From, LogConfig, OpenError,
    OpenReport, Partition, Place, PollError, PollQuery, Shared, SharedLimits,
};

pub type Log = Partition<SimPlatform, Reply>;

/// An answer slot that a test looks into.
#[derive(Clone, Default)]
pub struct Reply(pub Rc<RefCell<Option<Result<Appended, AppendError>>>>);

impl Answer for Reply {
    fn answer(self, result: Result<Appended, AppendError>) {
        let before = self.0.borrow_mut().replace(result);
        assert!(before.is_none(), "answered twice");
    }
}

impl Reply {
    pub fn get(&self) -> Option<Result<Appended, AppendError>> {
        self.0.borrow().clone()
    }

    pub fn ok(&self) -> Option<Appended> {
        self.get().and_then(Result::ok)
    }
}

pub const PARTITION: u32 = 7;

pub fn place() -> Place {
    Place {
        root: PathBuf::from("/"),
        dir: PathBuf::from("/streams/1/topics/2/partitions/7"),
        partition_id: PARTITION,
        incarnation: 3,
    }
}

pub fn log_file(first_offset: u64) -> PathBuf {
    place().dir.join(format!("{first_offset:020}.log"))
}

pub fn index_file(first_offset: u64) -> PathBuf {
    place().dir.join(format!("{first_offset:020}.index"))
}

pub fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 1 << 20, index_step: 16 << 10, ..LogConfig::default() }
}

pub async fn try_open(
    platform: &SimPlatform,
    config: LogConfig,
) -> Result<(Log, OpenReport), OpenError> {
    open_limited(platform, config, SharedLimits::default()).await
}

pub async fn open_limited(
    platform: &SimPlatform,
    config: LogConfig,
    limits: SharedLimits,
) -> Result<(Log, OpenReport), OpenError> {
    Log::open(Shared::new(platform.clone(), limits), place(), config).await
}

pub async fn open(platform: &SimPlatform, config: LogConfig) -> Log {
    try_open(platform, config).await.expect("the partition opens").0
}

/// A producer's batch of messages with these payload sizes; the content comes from `tag`.
pub fn batch(tag: u64, payloads: &[usize]) -> Bytes {
    let mut builder = BatchBuilder::new();
    let mut rng = Rng::new(tag);
    for (i, len) in payloads.iter().enumerate() {
        let payload: Vec<u8> = (0..*len).map(|_| rng.next_u64() as u8).collect();
        let message = Message::new(&payload)
            .id(u128::from(tag) << 32 | i as u128)
            .origin_timestamp(1_000 + i as u64);
        builder.push(message).unwrap();
    }
    builder.finish().unwrap().into()
}

pub fn random_batch(rng: &mut Rng, bytes_max: u64) -> Bytes {
    let count = rng.between(1, 8) as usize;
    let each = (bytes_max / count as u64).max(1);
    let sizes: Vec<usize> = (0..count).map(|_| rng.below(each) as usize).collect();
    batch(rng.next_u64(), &sizes)
}

pub fn append(log: &Log, bytes: &Bytes, ack: Ack) -> Reply {
    let reply = Reply::default();
    log.append(AdmittedBatch::admit(bytes.clone()).unwrap(), ack, reply.clone());
    reply
}

/// Appends and waits until everything before has reached `ack`.
pub async fn append_wait(log: &Log, bytes: &Bytes, ack: Ack) -> Appended {
    let reply = append(log, bytes, ack);
    log.flush(ack).await.unwrap();
    reply.get().expect("a flush covers what was appended before it").unwrap()
}

pub fn query(from: From, max_messages: u32, max_bytes: usize) -> PollQuery {
    PollQuery::new(from, max_messages, max_bytes)
}

/// A poll's bytes in one piece, with messages and next offset.
pub async fn poll(log: &Log, from: From, messages: u32, bytes: usize) -> Result<Got, PollError> {
    let polled = log.poll(query(from, messages, bytes)).await?;
    let mut joined = Vec::new();
    polled.pieces.iter().for_each(|piece| joined.extend_from_slice(piece.as_ref()));
    Ok(Got { bytes: joined, messages: polled.messages, next: polled.next_offset })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    pub bytes: Vec<u8>,
    pub messages: u32,
    pub next: u64,
}

impl Got {
    /// The batches in it, each fully verified.
    pub fn batches(&self) -> Vec<Batch<'_>> {
        let mut rest = &self.bytes[..];
        let mut batches = Vec::new();
        while !rest.is_empty() {
            let (batch, behind) = UnverifiedBatch::split_first(rest).unwrap();
            batches.push(batch.verify().unwrap());
            rest = behind;
        }
        batches
    }
}

/// What was appended, in order, and what the log must say about it.
#[derive(Default, Clone)]
pub struct Model {
    /// Producer bytes and the answer.
    pub batches: Vec<(Bytes, Appended)>,
}

impl Model {
    pub fn push(&mut self, bytes: Bytes, appended: Appended) {
        self.batches.push((bytes, appended));
    }

    pub fn end(&self) -> u64 {
        self.batches.last().map_or(0, |(_, a)| a.base_offset + u64::from(a.message_count))
    }

    /// Takes in what is stored behind what was answered: batches whose append was never answered.
    pub async fn take_in(&mut self, log: &Log) {
        while self.end() < log.watermarks().appended() {
            let got = poll(log, From::Offset(self.end()), 1, 1).await.unwrap();
            let header = *got.batches()[0].header();
            let BatchHeader { base_offset, base_timestamp, message_count, .. } = header;
            let appended = Appended { base_offset, base_timestamp, message_count };
            self.push(got.bytes.into(), appended);
        }
    }

    /// Reads everything from `from` on in polls of random limits and compares every byte.
    pub async fn check_all(&self, log: &Log, rng: &mut Rng) {
        let mut next = self.batches.first().map_or(0, |(_, a)| a.base_offset);
        let mut batches = self.batches.iter();
        while next < self.end() {
            let max = rng.between(1, 300_000) as usize;
            let got = poll(log, From::Offset(next), u32::MAX, max).await.unwrap();
            assert!(got.messages > 0, "a poll below the end serves something");
            for served in got.batches() {
                let (bytes, appended) = batches.next().expect("nothing that was not appended");
                assert_same(&served, bytes, *appended);
            }
            next = got.next;
        }
        assert!(batches.next().is_none(), "nothing is missing");
    }
}

/// A producer's batch as a server stores it: with these three fields, and the checksum over them.
pub fn as_stored(bytes: &[u8], partition_id: u32, base_offset: u64, base_timestamp: u64) -> Bytes {
    let mut admitted = corelog_format::admit(bytes).unwrap();
    let header = admitted.stamp(u64::from(partition_id), base_offset, base_timestamp);
    [&header[..], &bytes[header.len()..]].concat().into()
}

/// A stored batch is the producer's, but for the three stamped fields and the checksum over them.
pub fn assert_same(served: &Batch<'_>, bytes: &Bytes, appended: Appended) {
    let header = served.header();
    assert_eq!(header.partition_id, u64::from(PARTITION));
    assert_eq!(header.base_offset, appended.base_offset);
    assert_eq!(header.base_timestamp, appended.base_timestamp);
    assert_eq!(header.message_count, appended.message_count);
    assert_eq!(&served.bytes()[24..40], &bytes[24..40], "origin timestamp and length as sent");
    assert_eq!(&served.bytes()[256..], &bytes[256..], "frames byte for byte");
}

/// Every batch of a segment file as the scan of the dump tool sees it; the file must end clean.
pub fn file_batches(bytes: &[u8]) -> Vec<u64> {
    let mut offsets = Vec::new();
    for step in scan(bytes, 0, Expect::default()) {
        match step {
            Step::Batch { batch, .. } => offsets.push(batch.header().base_offset),
            Step::End { .. } => break,
            other => panic!("not clean: {other:?}"),
        }
    }
    offsets
}

pub fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Appends batches of these payload sizes durably and closes.
pub async fn filled(platform: &SimPlatform, config: LogConfig, batches: &[usize]) -> Model {
    let log = open(platform, config).await;
    let mut model = Model::default();
    for (tag, len) in batches.iter().enumerate() {
        let bytes = batch(tag as u64, &[*len]);
        let appended = append_wait(&log, &bytes, Ack::Written).await;
        model.push(bytes, appended);
    }
    log.close().await.unwrap();
    model
}

/// The same, but the process is killed instead of closing, so that the mark stays behind.
pub fn filled_and_killed(sim: &Sim, config: LogConfig, batches: &[usize]) -> Model {
    let model = sim.run(async {
        let log = open(sim.platform(), config).await;
        let mut model = Model::default();
        for (tag, len) in batches.iter().enumerate() {
            let bytes = batch(tag as u64, &[*len]);
            let appended = append_wait(&log, &bytes, Ack::Written).await;
            model.push(bytes, appended);
        }
        model
    });
    sim.disk().process_kill(1);
    model
}

/// A single consumer's key.
pub fn consumer(id: u32) -> ConsumerKey {
    ConsumerKey { kind: ConsumerKind::Consumer, id }
}

/// A log of `messages` messages, each a batch.
pub async fn log_of(sim: &Sim, messages: u64) -> Log {
    let log = open(sim.platform(), small_segments()).await;
    for tag in 0..messages {
        append_wait(&log, &batch(tag, &[100]), Ack::Written).await;
    }
    log
}

/// First offsets of the segments in the partition's directory.
pub fn logs(sim: &Sim) -> Vec<u64> {
    let names = sim.disk().files();
    let names = names.iter().filter(|p| p.parent() == Some(&place().dir));
    names.filter_map(|p| name(p).strip_suffix(".log")?.parse().ok()).collect()
}

/// Where each batch of a model begins in its (only) segment, and where the last one ends.
pub fn starts(model: &Model) -> Vec<u64> {
    let mut at = 0;
    let mut starts = vec![0];
    for (bytes, _) in &model.batches {
        at += bytes.len() as u64;
        starts.push(at);
    }
    starts
}

/// Opens, checks that exactly `expect` batches are left, appends one more, closes, opens again.
pub fn survives_with(sim: &Sim, model: &Model, expect: usize, what: &str) {
    sim.run(async {
        let platform = sim.platform();
        let (log, report) = try_open(platform, LogConfig::default()).await.unwrap();
        assert_eq!(report.damage, [], "{what}");
        let mut left = Model { batches: model.batches[..expect].to_vec() };
        assert_eq!(log.watermarks().appended(), left.end(), "{what}");
        let len = sim.disk().durable_contents(log_file(0)).unwrap().len() as u64;
        assert_eq!(len, *starts(&left).last().unwrap(), "{what}: what is no log is cut, durably");
        left.check_all(&log, &mut Rng::new(1)).await;
        let bytes = batch(999, &[100]);
        let appended = append_wait(&log, &bytes, Ack::Durable).await;
        assert_eq!(appended.base_offset, left.end(), "{what}");
        left.push(bytes, appended);
        log.close().await.unwrap();
        let log = open(platform, LogConfig::default()).await;
        left.check_all(&log, &mut Rng::new(2)).await;
        log.close().await.unwrap();
        let file = sim.disk().contents(log_file(0)).unwrap();
        assert_eq!(file_batches(&file).len(), expect + 1, "{what}: nothing of the tail came back");
    });
}

/// Answers into a slot, or panics.
pub enum Slot {
    Plain(Reply),
    Armed,
}

impl Answer for Slot {
    fn answer(self, result: Result<Appended, AppendError>) {
        match self {
            Slot::Plain(reply) => reply.answer(result),
            Slot::Armed => panic!("an answer that panics"),
        }
    }
}

/// A partition whose answers may panic.
pub type Part = Partition<SimPlatform, Slot>;
