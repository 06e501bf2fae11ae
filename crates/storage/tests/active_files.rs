//! Partitions that share few handles for appending: those at rest give theirs up, and nobody notices
//! but in the descriptors.

mod common;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use common::*;
use corelog_io::sim::{Fault, Rng, Sim, SimPlatform, errno};
use corelog_io::{Clock, IoOp, Platform};
use corelog_storage::{
    Ack, AppendError, Appended, CloseError, From, LogConfig, Notice, Observer, Place, Shared,
    SharedLimits,
};

fn place_of(number: usize) -> Place {
    let dir = PathBuf::from(format!("/streams/1/topics/2/partitions/{number}"));
    Place { dir, ..place() }
}

/// Files that were told of as missing.
#[derive(Default)]
struct Missing(RefCell<Vec<PathBuf>>);

impl Observer for Missing {
    fn notice(&self, notice: &Notice<'_>) {
        if let Notice::NoFile(error) = notice {
            self.0.borrow_mut().push(error.path.clone());
        }
    }
}

fn log_of(number: usize) -> PathBuf {
    place_of(number).dir.join(format!("{:020}.log", 0))
}

/// A shard's partitions, with at most `active_files` handles for appending.
async fn open_all(
    platform: &SimPlatform,
    count: usize,
    active_files: usize,
    config: &LogConfig,
) -> (Vec<Log>, Shared<SimPlatform>) {
    open_all_watched(platform, count, active_files, config, &Rc::default()).await
}

async fn open_all_watched(
    platform: &SimPlatform,
    count: usize,
    active_files: usize,
    config: &LogConfig,
    missing: &Rc<Missing>,
) -> (Vec<Log>, Shared<SimPlatform>) {
    let limits = SharedLimits { active_files, cache_bytes: 64 << 10, ..SharedLimits::default() };
    let shared = Shared::new(platform.clone(), limits).observed_by(Rc::<Missing>::clone(missing));
    let mut logs = Vec::new();
    for number in 0..count {
        let opened = Log::open(shared.clone(), place_of(number), config.clone()).await;
        logs.push(opened.unwrap().0);
    }
    (logs, shared)
}

/// Lets everything that is under way end.
async fn settle(platform: &SimPlatform) {
    platform.clock().sleep(Duration::from_millis(50)).await;
}

async fn close_all(logs: &[Log]) {
    for log in logs {
        log.close().await.unwrap();
    }
}

/// What one partition was given, and how it was answered.
type Given = Vec<(Bytes, Ack, Reply)>;

fn config_of(seed: u64) -> LogConfig {
    LogConfig { enforce_fsync: seed.is_multiple_of(3), ..small_segments() }
}

/// Appends at random to all of them, now and then a flush, a poll, a pause.
async fn work(platform: &SimPlatform, logs: &[Log], rng: &mut Rng, given: &mut [Given]) {
    for _ in 0..rng.between(50, 300) {
        let number = rng.index(logs.len());
        let log = &logs[number];
        match rng.below(10) {
            0 => log.flush([Ack::Written, Ack::Durable][rng.index(2)]).await.unwrap(),
            1 => {
                let from = rng.below(log.readable_end() + 1);
                poll(log, From::Offset(from), 3, 5_000).await.unwrap();
            }
            2 => platform.clock().sleep(Duration::from_micros(rng.below(9_000))).await,
            _ => {
                let bytes = random_batch(rng, 40_000);
                let ack = [Ack::Appended, Ack::Written, Ack::Durable][rng.index(3)];
                given[number].push((bytes.clone(), ack, append(log, &bytes, ack)));
            }
        }
    }
}

/// Checks that a log holds what was answered well, in order, and nothing that was not given.
async fn check(log: &Log, given: &Given, must: impl Fn(Ack) -> bool, what: &str) {
    let mut next = 0;
    let mut found = Vec::new();
    while next < log.watermarks().appended() {
        let got = poll(log, From::Offset(next), u32::MAX, 1 << 20).await.unwrap();
        for batch in got.batches() {
            assert_eq!(batch.header().base_offset, next, "{what}: dense");
            next = batch.header().end_offset().unwrap();
            found.push((batch.header().base_offset, batch.bytes()[256..].to_vec()));
        }
    }
    let mut last = None;
    for (bytes, ack, reply) in given {
        let place = found.iter().position(|(_, frames)| frames[..] == bytes[256..]);
        let Some(Appended { base_offset, .. }) = reply.ok() else { continue };
        match place {
            Some(place) => assert_eq!(found[place].0, base_offset, "{what}: moved"),
            None => assert!(!must(*ack), "{what}: acknowledged batch at {base_offset} is lost"),
        }
        assert!(last < Some(base_offset), "{what}: order");
        last = Some(base_offset);
    }
    let known = |frames: &[u8]| given.iter().any(|(bytes, _, _)| bytes[256..] == frames[..]);
    assert!(found.iter().all(|(_, frames)| known(frames)), "{what}: never appended");
}

#[test]
fn ten_partitions_share_two_handles() {
    for seed in 0..30 {
        let (sim, config) = (Sim::new(seed), config_of(seed));
        sim.run(async {
            let platform = sim.platform();
            let mut rng = Rng::new(seed);
            let (logs, shared) = open_all(platform, 10, 2, &config).await;
            settle(platform).await;
            assert!(shared.active_handles() <= 2, "seed {seed}: after the opening");
            let mut given = vec![Given::new(); logs.len()];
            work(platform, &logs, &mut rng, &mut given).await;
            for log in &logs {
                log.flush(Ack::Durable).await.unwrap();
                assert!(shared.active_handles() <= 2, "seed {seed}");
            }
            for ((log, given), number) in logs.iter().zip(&given).zip(0..) {
                assert!(given.iter().all(|(_, _, reply)| reply.ok().is_some()), "seed {seed}");
                check(log, given, |_| true, &format!("seed {seed}, partition {number}")).await;
            }
            settle(platform).await;
            // The handles for reading have a limit of their own.
            let open = sim.disk().open_files() - shared.open_handles();
            assert!(open <= 2, "seed {seed}: {open} files");
            close_all(&logs).await;
            assert_eq!((shared.active_handles(), sim.disk().open_files()), (0, 0), "seed {seed}");
        });
    }
}

#[test]
fn a_crash_meets_parked_partitions_and_takes_nothing() {
    for seed in 0..60 {
        let (sim, config) = (Sim::new(seed), config_of(seed));
        let mut rng = Rng::new(seed);
        let mut given = vec![Given::new(); 5];
        let until = Duration::from_micros(rng.between(2_000, 120_000));
        sim.run(async {
            let platform = sim.platform();
            let (logs, _) = open_all(platform, 5, 1, &config).await;
            let mut busy = std::pin::pin!(work(platform, &logs, &mut rng, &mut given));
            let mut crash = std::pin::pin!(platform.clock().sleep(until));
            std::future::poll_fn(|cx| match busy.as_mut().poll(cx) {
                std::task::Poll::Pending => crash.as_mut().poll(cx),
                done => done,
            })
            .await;
        });
        let power = seed.is_multiple_of(2);
        if power {
            sim.disk().power_cut(seed)
        } else {
            sim.disk().process_kill(seed)
        }
        sim.run(async {
            let (logs, _) = open_all(sim.platform(), 5, 1, &config).await;
            for ((log, given), number) in logs.iter().zip(&given).zip(0..) {
                let must = |ack| match power {
                    true => ack == Ack::Durable || config.enforce_fsync,
                    false => ack != Ack::Appended || config.enforce_fsync,
                };
                check(log, given, must, &format!("seed {seed}, partition {number}")).await;
            }
            close_all(&logs).await;
        });
    }
}

#[test]
fn a_file_that_cannot_be_opened_again_refuses_and_forgets_nothing() {
    let (sim, config) = (Sim::new(1), LogConfig::default());
    sim.run(async {
        let platform = sim.platform();
        let missing = Rc::default();
        let (logs, _) = open_all_watched(platform, 2, 1, &config, &missing).await;
        let (one, other) = (batch(1, &[1000]), batch(2, &[1000]));
        append_wait(&logs[0], &one, Ack::Written).await;
        append_wait(&logs[1], &other, Ack::Written).await;
        settle(platform).await;
        let fault = Fault::fail(errno::EACCES).of(IoOp::Open).on("partitions/0/").for_ever();
        let fault = sim.disk().inject(fault);
        // It is parked, and what it has written is not synced.
        let flushed = logs[0].flush(Ack::Durable).await;
        assert!(matches!(flushed, Err(AppendError::NoFile(_))), "{flushed:?}");
        let refused = append(&logs[0], &batch(3, &[1000]), Ack::Appended);
        settle(platform).await;
        assert!(matches!(refused.get(), Some(Err(AppendError::NoFile(_)))), "{:?}", refused.get());
        assert_eq!(logs[0].watermarks().appended(), 1, "no offset was used");
        assert_eq!(*missing.0.borrow(), [(); 2].map(|()| log_of(0)), "each attempt is told");
        append_wait(&logs[1], &batch(4, &[10]), Ack::Durable).await;
        sim.disk().lift(fault);
        logs[0].flush(Ack::Durable).await.unwrap();
        let appended = append_wait(&logs[0], &batch(5, &[1000]), Ack::Durable).await;
        assert_eq!(appended.base_offset, 1);
        close_all(&logs).await;
    });
}

/// A close that the file system answers with an error is told, and the partition is closed all the
/// same: nothing of it stays open or is counted.
#[test]
fn a_partition_whose_file_closes_with_an_error_is_closed() {
    let (sim, config) = (Sim::new(1), LogConfig::default());
    sim.run(async {
        let (logs, shared) = open_all(sim.platform(), 2, 2, &config).await;
        for log in &logs {
            append_wait(log, &batch(1, &[1000]), Ack::Written).await;
        }
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Close).on("0.log"));
        let closed = logs[0].close().await;
        let Err(CloseError::Io(error)) = closed else { panic!("{closed:?}") };
        assert_eq!((error.op, &error.path), (IoOp::Close, &log_of(0)));
        assert_eq!((shared.open_partitions(), shared.active_handles()), (1, 1));
        logs[1].close().await.unwrap();
        assert_eq!((shared.open_partitions(), shared.active_handles()), (0, 0));
    });
}

#[test]
fn one_whose_write_hangs_keeps_its_handle_and_the_others_share_the_rest() {
    let (sim, config) = (Sim::new(2), LogConfig::default());
    sim.run(async {
        let platform = sim.platform();
        let (logs, shared) = open_all(platform, 4, 2, &config).await;
        let hang = sim.disk().inject(Fault::stall().of(IoOp::Write).on("partitions/3/").for_ever());
        let hung = append(&logs[3], &batch(9, &[100]), Ack::Written);
        for tag in 0..30 {
            append_wait(&logs[tag as usize % 3], &batch(tag, &[100]), Ack::Written).await;
            assert!(shared.active_handles() <= 2);
        }
        assert!(hung.get().is_none());
        sim.disk().lift(hang);
        logs[3].flush(Ack::Written).await.unwrap();
        assert!(hung.ok().is_some());
        close_all(&logs).await;
    });
}

#[test]
fn where_descriptors_run_out_one_at_rest_is_parked() {
    let (sim, config) = (Sim::new(3), LogConfig::default());
    sim.run(async {
        let platform = sim.platform();
        sim.disk().set_open_files_max(12);
        let (logs, shared) = open_all(platform, 30, 1000, &config).await;
        for (log, tag) in logs.iter().zip(0..) {
            append_wait(log, &batch(tag, &[100]), Ack::Written).await;
        }
        assert!((1..=12).contains(&shared.active_handles()), "{}", shared.active_handles());
        close_all(&logs).await;
    });
}

#[test]
fn a_parked_log_is_closed_in_order_and_an_untouched_one_without_a_write() {
    let (sim, config) = (Sim::new(4), LogConfig::default());
    sim.run(async {
        let platform = sim.platform();
        let (logs, _) = open_all(platform, 3, 1, &config).await;
        for (log, tag) in logs.iter().zip(0..) {
            append_wait(log, &batch(tag, &[3000]), Ack::Written).await;
        }
        close_all(&logs).await;
        for number in 0..3 {
            let log = place_of(number).dir.join(format!("{:020}.log", 0));
            let bytes = sim.disk().durable_contents(log).unwrap();
            assert_eq!(file_batches(&bytes), [0], "durable, and cut to its length");
        }
        let changes = [IoOp::Write, IoOp::Sync, IoOp::SetLen, IoOp::SyncDir];
        let count = || changes.map(|op| sim.disk().count(op));
        let before = count();
        let (logs, _) = open_all(platform, 3, 1, &config).await;
        close_all(&logs).await;
        let after = count();
        assert_eq!(before[0], after[0], "no write");
        assert_eq!(before[1], after[1], "no sync");
        assert_eq!(before[3], after[3], "no sync of a directory");
    });
}
