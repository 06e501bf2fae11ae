//! I/O that takes long or never comes back, and a mark that cannot be stored: nobody else waits.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Rng, Sim, SimPlatform, errno};
use corelog_io::{Clock, IoOp};
use corelog_storage::{Ack, AppendError, From, LogConfig, Place, Shared, SharedLimits};

async fn another(shared: &Shared<SimPlatform>, name: &str, config: LogConfig) -> Log {
    let place = Place { dir: place().dir.with_file_name(name), ..place() };
    Log::open(shared.clone(), place, config).await.unwrap().0
}

/// Each kind of operation of one partition hangs for ever: the others append, poll, roll, trim and
/// close, also where the one takes in all it can get.
#[test]
fn what_never_comes_back_holds_up_its_own_partition_only() {
    for op in [IoOp::Write, IoOp::Sync, IoOp::Allocate, IoOp::SetLen, IoOp::Open, IoOp::Read] {
        let sim = Sim::new(1);
        sim.run(async {
            sim.disk().buffers().set_limit(24 << 20);
            let shared = Shared::new(sim.platform().clone(), SharedLimits::default());
            // It rolls only where that is what hangs.
            let rolls = matches!(op, IoOp::SetLen | IoOp::Open);
            let config = if rolls { small_segments() } else { LogConfig::default() };
            let stuck = another(&shared, "stuck", config).await;
            let well = another(&shared, "well", small_segments()).await;
            append_wait(&stuck, &batch(0, &[10]), Ack::Durable).await;
            sim.disk().inject(Fault::stall().of(op).on("/stuck/").for_ever());
            let _waiting: Vec<_> = (0..60)
                .map(|tag| append(&stuck, &batch(tag, &[1_000_000]), Ack::Written))
                .collect();
            let _durable = append(&stuck, &batch(99, &[10]), Ack::Durable);
            sim.clock().sleep(Duration::from_secs(5)).await;
            let mut model = Model::default();
            for tag in 0..40 {
                let bytes = batch(tag, &[60_000]);
                let before = sim.clock().elapsed();
                let appended = append_wait(&well, &bytes, Ack::Durable).await;
                assert!(sim.clock().elapsed() - before < Duration::from_secs(2), "{op:?}");
                model.push(bytes, appended);
            }
            model.check_all(&well, &mut Rng::new(1)).await;
            assert!(well.trim(u64::MAX).await.unwrap().segments > 0);
            well.close().await.unwrap();
            assert!(stuck.watermarks().durable() >= 1, "and it can still be asked");
            if op != IoOp::Read {
                let got = poll(&stuck, From::First, 1, 1).await.unwrap();
                assert_eq!(got.messages, 1, "{op:?}");
            }
            sim.disk().lift_all();
            stuck.flush(Ack::Durable).await.unwrap();
            stuck.close().await.unwrap();
        });
    }
}

/// The manifest cannot be stored for a while: the mark lags, attempts are few, and as soon as they
/// succeed the next opening has nothing to scan.
#[test]
fn a_mark_that_cannot_be_stored_lags_is_tried_again_and_catches_up() {
    for (op, code) in
        [(IoOp::Open, errno::ENOSPC), (IoOp::Write, errno::ENOSPC), (IoOp::Write, errno::EIO)]
    {
        let sim = Sim::new(2);
        let model = sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            let fault = sim.disk().inject(Fault::fail(code).of(op).on("manifest").for_ever());
            let mut model = Model::default();
            let started = sim.clock().elapsed();
            for tag in 0..80 {
                let bytes = batch(tag, &[60_000]);
                let appended = append_wait(&log, &bytes, Ack::Durable).await;
                model.push(bytes, appended);
                sim.clock().sleep(Duration::from_millis(50)).await;
            }
            let seconds = (sim.clock().elapsed() - started).as_secs();
            let rolls = logs(&sim).len() as u64 - 1;
            let tried = sim.disk().hits(fault);
            assert!(
                tried <= seconds + 2 * rolls + 2,
                "{tried} attempts in {seconds} s, {rolls} rolls"
            );
            assert!(tried >= 3);
            sim.disk().lift(fault);
            for tag in 80..83 {
                let bytes = batch(tag, &[100]);
                let appended = append_wait(&log, &bytes, Ack::Durable).await;
                model.push(bytes, appended);
                sim.clock().sleep(Duration::from_millis(1_500)).await;
            }
            model
        });
        sim.disk().power_cut(2);
        sim.run(async {
            let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
            assert!(report.recovered_batches <= 1, "{report:?}");
            model.check_all(&log, &mut Rng::new(2)).await;
        });
    }
}

/// The first fault is kept: what fails later does not cover it up.
#[test]
fn the_first_fault_is_the_one_that_is_told() {
    let sim = Sim::new(3);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        append_wait(&log, &batch(0, &[10]), Ack::Durable).await;
        // Two writes in flight: the second fails first, with another error.
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write).on(".log").from_nth(2));
        let late = Fault::delay(Duration::from_secs(1)).of(IoOp::Write).on(".log");
        sim.disk().inject(late);
        sim.disk().inject(Fault::fail(errno::EROFS).of(IoOp::Write).on(".log"));
        append(&log, &batch(1, &[3_000_000]), Ack::Written);
        sim.clock().sleep(Duration::from_millis(500)).await;
        let first = log.fault().expect("a write has failed");
        assert_eq!(first.error.source.raw_os_error(), Some(errno::EIO));
        sim.clock().sleep(Duration::from_secs(5)).await;
        for reply in [
            append(&log, &batch(2, &[10]), Ack::Appended),
            append(&log, &batch(3, &[10]), Ack::Durable),
        ] {
            let Err(AppendError::Poisoned(told)) = reply.get().unwrap() else {
                panic!("{reply:?}", reply = reply.get())
            };
            assert_eq!(
                (told.since_us, told.error.source.raw_os_error()),
                (first.since_us, Some(errno::EIO))
            );
        }
        let corelog_storage::CloseError::Poisoned(told) = log.close().await.unwrap_err() else {
            panic!()
        };
        assert_eq!(told.since_us, first.since_us);
    });
}
