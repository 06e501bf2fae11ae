//! Whole runs on a real directory, with a log in memory in the engine's place.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;
use corelog::machine::Runtime;
use corelog_format::{BATCH_HEADER_LEN, UnverifiedBatch, admit};

use super::*;
use crate::ceiling::Shape;
use crate::check::What;
use crate::content::{BatchId, Sizes};
use crate::place::tests::test_dir;
use crate::results::Figure;
use crate::subject::{Demand, Engine, EngineError, Records, Topic};

/// What goes wrong in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A byte of partition 1's second batch is flipped.
    Flip(usize),
    /// Partition 1's second batch is answered and not stored.
    Lose,
    /// Appends to partition 1 are refused.
    Refuse,
    /// The user stops the run in its second round.
    Stop,
}

/// By data directory, durable or not, and partition: batches as stored, with their messages.
type Logs = HashMap<(PathBuf, bool, u32), Vec<(u64, Vec<u8>)>>;

/// Logs that survive a close, as files do.
struct Memory {
    logs: Arc<Mutex<Logs>>,
    fault: Fault,
    interrupt: Interrupt,
    opened: AtomicU32,
}

impl Memory {
    fn new(fault: Fault, interrupt: &Interrupt) -> Memory {
        Memory {
            logs: Arc::default(),
            fault,
            interrupt: interrupt.clone(),
            opened: AtomicU32::new(0),
        }
    }
}

struct Open {
    logs: Arc<Mutex<Logs>>,
    fault: Fault,
    interrupt: Interrupt,
    dir: PathBuf,
}

impl Opener for Memory {
    type Engine = Open;

    fn open(&self, dir: &Path, demand: Demand, _: &Interrupt) -> Result<Open, EngineError> {
        std::fs::create_dir_all(dir)?;
        assert!(demand.appends_in_flight >= 4 && demand.bytes_in_flight >= 4 * 942);
        self.opened.fetch_add(1, Ordering::Relaxed);
        let (logs, interrupt) = (Arc::clone(&self.logs), self.interrupt.clone());
        Ok(Open { logs, fault: self.fault, interrupt, dir: dir.to_owned() })
    }
}

impl Open {
    fn store(&self, topic: Topic, partition: u32, batch: &[u8]) -> Result<(), EngineError> {
        let mut logs = self.logs.lock().unwrap();
        let key = (self.dir.clone(), topic == Topic::Durable, partition);
        let log = logs.entry(key).or_default();
        let mut admitted = admit(batch)?;
        let base_offset = log.iter().map(|(messages, _)| messages).sum::<u64>();
        let messages = u64::from(admitted.message_count());
        let header = admitted.stamp(u64::from(partition), base_offset, 1 + base_offset);
        let mut stored = [&header, &batch[BATCH_HEADER_LEN..]].concat();
        let first = UnverifiedBatch::new(batch)?.verify()?.frames().next().expect("admitted");
        let sequence = BatchId::decode(first.id()).expect("one of the run's ids").sequence;
        let is_victim = topic == Topic::Written && partition == 1 && sequence == 1;
        match self.fault {
            Fault::Refuse if partition == 1 => return Err("refused".into()),
            Fault::Lose if is_victim => return Ok(()),
            Fault::Flip(at) if is_victim => stored[at] ^= 1,
            // Behind the warm-up.
            Fault::Stop if self.dir.ends_with("round-1") && sequence == 3 => self.interrupt.raise(),
            _ => {}
        }
        log.push((messages, stored));
        Ok(())
    }
}

impl Engine for Open {
    type Records = Views;

    fn append(
        &self,
        topic: Topic,
        partition: u32,
        batch: Bytes,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        // Its place in the order is taken by the call, and the answer comes later.
        let mut stored = Some(self.store(topic, partition, &batch));
        let mut is_first = true;
        std::future::poll_fn(move |context| {
            if std::mem::take(&mut is_first) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(stored.take().expect("polled after its end"))
        })
    }

    async fn poll(
        &self,
        topic: Topic,
        partition: u32,
        offset: u64,
        bytes_max: usize,
        _wait: Duration,
    ) -> Result<Views, EngineError> {
        let logs = self.logs.lock().unwrap();
        let log = logs.get(&(self.dir.clone(), topic == Topic::Durable, partition));
        let mut bytes = Vec::new();
        let mut next_offset = 0;
        for (messages, batch) in log.into_iter().flatten() {
            let is_full = !bytes.is_empty() && bytes.len() + batch.len() > bytes_max;
            if next_offset >= offset && is_full {
                break;
            }
            if next_offset >= offset {
                bytes.extend_from_slice(batch);
            }
            next_offset += messages;
        }
        let slices = bytes.chunks(999).map(Bytes::copy_from_slice).collect();
        Ok(Views { slices, next_offset })
    }

    fn syncs(&self) -> Option<u64> {
        // One for each batch that it has ever stored.
        Some(self.logs.lock().unwrap().values().map(|log| log.len() as u64).sum())
    }

    fn close(self) -> Result<(), EngineError> {
        Ok(())
    }
}

struct Views {
    slices: Vec<Bytes>,
    next_offset: u64,
}

impl Records for Views {
    fn slices(&self) -> &[Bytes] {
        &self.slices
    }

    fn next_offset(&self) -> u64 {
        self.next_offset
    }
}

fn settings() -> Settings {
    Settings {
        shards: 2,
        runtime: Runtime::default(),
        partitions: 3,
        producers: 2,
        in_flight: 2,
        consumers: 2,
        sizes: Sizes::fixed(7, 50),
        total_bytes: 40_000,
        rounds: 2,
        poll_bytes: 2000,
        durable_samples: 3,
        durable_producers: 1,
        shape: Shape { block: 4096, depth: 2, rings: 2 },
        ..Settings::sample()
    }
}

fn run_in(name: &str, settings: &Settings, fault: Fault) -> Result<Outcome, RunError> {
    let place = test_dir(name);
    let interrupt = Interrupt::default();
    let memory = Memory::new(fault, &interrupt);
    let ran = run(&memory, settings, &place, &interrupt, &Live::default(), &mut |_, _, _| {});
    if let (Ok(outcome), Fault::None) = (&ran, fault) {
        // What is polled must not come from the memory of the engine that appended; what is caught
        // up with neither.
        let opened = memory.opened.load(Ordering::Relaxed);
        let each = if settings.catch_up > 0 { 3 } else { 2 };
        assert_eq!(opened, outcome.rounds * each);
        let left: Vec<_> = place
            .ceiling_dir()
            .unwrap()
            .read_dir()
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert!(left.iter().all(|name| name.to_string_lossy().starts_with("synced")), "{left:?}");
        assert!(!place.round_dir(0).exists());
    }
    ran
}

#[test]
fn every_phase_of_every_round_is_measured() {
    let outcome = run_in("run-all", &settings(), Fault::None).unwrap();
    assert_eq!(outcome.ended, Ended::Complete);
    assert_eq!(outcome.rounds, 2);
    for phase in &outcome.phases {
        let pairs = phase.pairs();
        assert_eq!(pairs.len(), 2, "{}", phase.name);
        let mut figures = pairs.iter().flat_map(|pair| [pair.0, pair.1]);
        assert!(figures.all(|figure| figure.is_finite() && figure > 0.0), "{pairs:?}");
    }
    // 20,000 bytes a round are 22 batches of 942 bytes; each of the 3 lanes warms up with one.
    assert_eq!(outcome.batch_bytes, 942);
    let [append, poll, durable] = &outcome.phases[..] else { panic!("{:?}", outcome.phases) };
    assert_eq!((append.bytes(), append.messages()), (44 * 942, 44 * 7));
    assert_eq!(append.latency().count(), 44);
    assert_eq!((poll.bytes(), poll.messages()), (50 * 942, 50 * 7));
    // Those of the phase alone, its warm-up left out, not of the life of the engine.
    let syncs = |phase: &Phase| phase.rounds[1].used.engine_syncs;
    assert_eq!((syncs(append), syncs(poll), syncs(durable)), (Some(22), Some(0), Some(3)));
    assert_eq!((durable.messages(), durable.latency().count()), (6, 6));
    assert_eq!((outcome.synced.dsync.count(), outcome.synced.linked.count()), (6, 6));
}

#[test]
fn shared_partitions_keep_each_producers_order() {
    let shared = Settings { partitions: 2, producers: 5, ..settings() };
    run_in("run-shared", &shared, Fault::None).unwrap();
}

#[test]
fn a_flipped_byte_is_found_wherever_it_is() {
    for at in [0, 40, 255, BATCH_HEADER_LEN, BATCH_HEADER_LEN + 49, 941] {
        let error = run_in("run-flip", &settings(), Fault::Flip(at)).unwrap_err();
        let RunError::Mismatch(mismatch) = error else { panic!("byte {at}: {error}") };
        assert_eq!((mismatch.partition, mismatch.offset), (1, 7), "byte {at}: {mismatch}");
    }
}

#[test]
fn a_lost_batch_is_found() {
    let error = run_in("run-lose", &settings(), Fault::Lose).unwrap_err();
    let RunError::Mismatch(mismatch) = error else { panic!("{error}") };
    assert_eq!(mismatch.partition, 1);
    assert_eq!(mismatch.what, What::Order { producer: 1, expected: 1, found: 2 });
}

#[test]
fn a_refusal_of_the_engine_is_told_as_such() {
    let error = run_in("run-refuse", &settings(), Fault::Refuse).unwrap_err();
    assert_eq!(error.to_string(), "appending: refused");
}

#[test]
fn a_stopped_run_keeps_what_it_measured() {
    let outcome = run_in("run-stop", &settings(), Fault::Stop).unwrap();
    assert_eq!((outcome.ended, outcome.rounds), (Ended::Interrupted, 1));
    let [append, poll, durable] = &outcome.phases[..] else { panic!("{:?}", outcome.phases) };
    assert_eq!((append.rounds.len(), poll.rounds.len(), durable.rounds.len()), (2, 1, 1));
    // The last round's appends were cut short, so it has fewer of them, but true ones.
    let (whole, cut) = (&append.rounds[0], &append.rounds[1]);
    assert!(cut.service.count() > 0 && cut.service.count() < whole.service.count());
    assert!(cut.engine > 0.0);
}

#[test]
fn a_time_limit_ends_a_run_between_rounds() {
    let short = Settings { time_limit: Some(Duration::ZERO), ..settings() };
    let outcome = run_in("run-time", &short, Fault::None).unwrap();
    assert_eq!((outcome.ended, outcome.rounds), (Ended::TimeLimit, 1));
}

#[test]
fn durable_phases_can_be_left_out() {
    let fewer = Settings { steps: vec![Step::Append, Step::Poll], ..settings() };
    let outcome = run_in("run-written", &fewer, Fault::None).unwrap();
    assert!(outcome.phase("durable").is_none());
    assert_eq!(outcome.synced.dsync.count(), 0);
}

#[test]
fn consumers_follow_the_appends_and_check_every_byte() {
    let mixed = Settings { tail: 2, catch_up: 3, ..settings() };
    let outcome = run_in("run-mixed", &mixed, Fault::None).unwrap();
    let phase = |name| outcome.phase(name).unwrap();
    for name in ["append", "tail", "catch_up", "poll"] {
        assert_eq!(phase(name).pairs().len(), 2, "{name}");
    }
    // Every batch that was counted when it was answered was counted when it arrived.
    assert_eq!(phase("tail").bytes(), phase("append").bytes());
    assert_eq!(phase("tail").latency().count(), 44);
    // What is caught up with was appended before: 25 batches a round. The last poll of each of the
    // three partitions, of two batches, may hold one that was appended meanwhile. Then all is polled.
    let caught_up = phase("catch_up").bytes();
    assert!(caught_up > 0 && caught_up <= (50 + 2 * 3) * 942, "{caught_up}");
    assert_eq!(phase("poll").bytes(), 100 * 942);
    for fault in [Fault::Flip(300), Fault::Lose] {
        let error = run_in("run-mixed-bad", &mixed, fault).unwrap_err();
        assert!(matches!(error, RunError::Mismatch(_)), "{error}");
    }
}

#[test]
fn drawn_sizes_and_random_order_are_read_back_too() {
    let drawn = Settings {
        shuffle: true,
        sizes: Sizes { messages: 1..9, payload: 0..90, headers: 2, entropy_percent: 50 },
        ..settings()
    };
    let outcome = run_in("run-drawn", &drawn, Fault::None).unwrap();
    let (append, poll) = (outcome.phase("append").unwrap(), outcome.phase("poll").unwrap());
    // Each of the six lanes of a round has one batch more, for the warm-up.
    assert_eq!(append.latency().count() + 12, batches(&drawn, &outcome));
    assert!(poll.messages() > append.messages());
}

/// Batches that were appended, by what was polled.
fn batches(settings: &Settings, outcome: &Outcome) -> u64 {
    let content = Content::of(settings.seed, &settings.sizes).unwrap();
    let round_bytes = settings.total_bytes.div_ceil(u64::from(settings.rounds));
    let timed = round_bytes.div_ceil(content.batch_len_mean());
    let lanes = u64::from(settings.producers) * u64::from(settings.partitions);
    u64::from(outcome.rounds) * (timed + lanes)
}

#[test]
fn durable_appends_of_many_producers_are_counted_by_the_second() {
    let fsync = Settings {
        steps: vec![Step::DurableShared, Step::DurableSpread],
        durable_producers: 3,
        rounds: 1,
        ..settings()
    };
    let place = test_dir("run-fsync");
    let interrupt = Interrupt::default();
    let memory = Memory::new(Fault::None, &interrupt);
    let outcome =
        run(&memory, &fsync, &place, &interrupt, &Live::default(), &mut |_, _, _| {}).unwrap();
    for phase in &outcome.phases {
        assert!(phase.engine().unwrap() > 0.0 && phase.ceiling_figure().unwrap() > 0.0);
        assert_eq!(phase.figure, Figure::OperationsPerS);
    }
    assert_eq!(outcome.phases.len(), 2);
}
