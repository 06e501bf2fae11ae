//! Space that runs out and comes back, and descriptors: refused before an offset is used, by name,
//! and everything works again without reopening.

mod common;

use common::*;
use corelog_io::IoOp;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_storage::{
    Ack, AppendError, CloseError, From, LogConfig, OffsetError, OpenError, Place, PollError,
    Shared, SharedLimits,
};

fn refused(reply: &Reply) -> Option<AppendError> {
    reply.get().expect("answered").err()
}

/// Partitions that share a shard, and what each must hold.
async fn several(sim: &Sim, count: u32, config: &LogConfig) -> Vec<(Log, Model)> {
    let shared = Shared::new(sim.platform().clone(), SharedLimits::default());
    let mut logs = Vec::new();
    for number in 0..count {
        let dir = place().dir.join(number.to_string());
        let place = Place { dir, ..place() };
        let (log, _) = Log::open(shared.clone(), place, config.clone()).await.unwrap();
        logs.push((log, Model::default()));
    }
    logs
}

/// Appends `each` batches to all logs at once; says how many were refused for want of space.
async fn burst(logs: &mut [(Log, Model)], each: u64, tag: u64) -> u64 {
    let mut calls = Vec::new();
    for i in 0..each {
        for (number, (log, _)) in logs.iter().enumerate() {
            let bytes =
                batch(tag + i * 10 + number as u64, &[if i % 3 == 0 { 90_000 } else { 20_000 }]);
            let reply = append(log, &bytes, Ack::Written);
            calls.push((number, bytes, reply));
        }
    }
    for (log, _) in logs.iter() {
        log.flush(Ack::Durable).await.unwrap();
    }
    let mut full = 0;
    for (number, bytes, reply) in calls {
        match reply.get().expect("a flush covers it") {
            Ok(appended) => {
                assert_eq!(appended.base_offset, logs[number].1.end(), "offsets have no gap");
                logs[number].1.push(bytes, appended);
            }
            Err(AppendError::StorageFull(error)) => {
                assert!(error.is_full());
                full += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    full
}

#[test]
fn queued_appends_of_several_partitions_are_refused_and_go_on_when_space_returns() {
    for (seed, enforce_fsync, preallocate_segments) in
        [(1, false, false), (2, true, false), (3, false, true), (4, true, true)]
    {
        let sim = Sim::new(seed);
        sim.run(async {
            let config = LogConfig { enforce_fsync, preallocate_segments, ..small_segments() };
            let mut logs = several(&sim, 3, &config).await;
            assert_eq!(burst(&mut logs, 3, 0).await, 0);
            for round in 1..4 {
                // A little is left each time: ends come in growing a file and in beginning one.
                sim.disk().set_capacity(sim.disk().used() + round * 300_000);
                let full = burst(&mut logs, 30, round * 1_000).await;
                assert!(full > 10, "round {round}: {full}");
                for (log, model) in &logs {
                    assert!(log.fault().is_none());
                    assert_eq!(log.watermarks().appended(), model.end(), "no offset was used");
                    model.check_all(log, &mut Rng::new(seed)).await;
                }
                sim.disk().set_capacity(u64::MAX);
                assert_eq!(burst(&mut logs, 12, round * 5_000).await, 0, "round {round}");
            }
            for (log, model) in &logs {
                model.check_all(log, &mut Rng::new(seed)).await;
                log.close().await.unwrap();
            }
            let sizes: u64 = logs.iter().flat_map(|l| &l.1.batches).map(|b| b.0.len() as u64).sum();
            assert!(sim.disk().used() < sizes + (1 << 20), "nothing reserved is left behind");
            for (number, (_, model)) in logs.iter().enumerate() {
                let dir = place().dir.join(number.to_string());
                let shared = Shared::new(sim.platform().clone(), SharedLimits::default());
                let place = Place { dir, ..place() };
                let (log, report) = Log::open(shared, place, config.clone()).await.unwrap();
                assert_eq!(report.damage, []);
                model.check_all(&log, &mut Rng::new(seed)).await;
            }
        });
    }
}

/// Which error of an allocation is a refusal, and which a fault.
#[test]
fn no_space_is_a_refusal_and_any_other_answer_to_an_allocation_a_fault() {
    for (code, is_full) in [
        (errno::ENOSPC, true),
        (errno::EDQUOT, true),
        (errno::EIO, false),
        (errno::EROFS, false),
        (errno::EINVAL, false),
    ] {
        for enforce_fsync in [false, true] {
            let sim = Sim::new(code as u64);
            sim.run(async {
                let config = LogConfig { enforce_fsync, ..LogConfig::default() };
                let log = open(sim.platform(), config).await;
                let fault = sim.disk().inject(Fault::fail(code).of(IoOp::Allocate).for_ever());
                let reply = append(&log, &batch(1, &[10]), Ack::Written);
                let _ = log.flush(Ack::Written).await;
                let error = refused(&reply).expect("there is no space");
                assert!(error.to_string().contains(".log"), "{error}");
                assert_eq!(log.watermarks().appended(), 0, "no offset was used");
                assert_eq!(log.fault().is_some(), !is_full, "{error}");
                match (is_full, &error) {
                    (true, AppendError::StorageFull(_)) => {}
                    (false, AppendError::Poisoned(_)) => {}
                    _ => panic!("{code}: {error}"),
                }
                sim.disk().lift(fault);
                let reply = append(&log, &batch(2, &[10]), Ack::Written);
                let _ = log.flush(Ack::Written).await;
                assert_eq!(reply.ok().map(|a| a.base_offset), is_full.then_some(0));
            });
        }
    }
}

/// Space was reserved and is not there all the same (a thin device, a snapshot): that is no refusal.
#[test]
fn no_space_in_reserved_space_poisons() {
    for enforce_fsync in [false, true] {
        let sim = Sim::new(5);
        sim.run(async {
            let config = LogConfig { enforce_fsync, ..LogConfig::default() };
            let log = open(sim.platform(), config).await;
            append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
            sim.disk().inject(Fault::fail(errno::ENOSPC).of(IoOp::Write).on(".log"));
            let reply = append(&log, &batch(2, &[10]), Ack::Written);
            assert!(log.flush(Ack::Written).await.is_err());
            assert!(matches!(refused(&reply), Some(AppendError::Poisoned(_))));
            assert_eq!(log.readable_end(), 1);
        });
    }
}

/// No error path takes anything away that was durable.
#[test]
fn no_error_removes_or_cuts_what_was_durable() {
    let ops = [IoOp::Write, IoOp::Sync, IoOp::Allocate, IoOp::SetLen, IoOp::Open, IoOp::SyncDir];
    for code in [errno::ENOSPC, errno::EIO] {
        for op in ops {
            for nth in 1..6 {
                let sim = Sim::new(nth);
                let before = sim.run(async {
                    let log = open(sim.platform(), small_segments()).await;
                    for tag in 0..25 {
                        append_wait(&log, &batch(tag, &[60_000]), Ack::Durable).await;
                    }
                    let before: Vec<_> = logs(&sim)
                        .iter()
                        .map(|first| {
                            (log_file(*first), sim.disk().contents(log_file(*first)).unwrap())
                        })
                        .collect();
                    sim.disk().inject(Fault::fail(code).of(op).from_nth(nth).for_ever());
                    for tag in 25..60 {
                        append(&log, &batch(tag, &[60_000]), Ack::Durable);
                        let _ = log.flush(Ack::Durable).await;
                    }
                    let _ = log.close().await;
                    before
                });
                for (path, bytes) in before {
                    let used = bytes.iter().rposition(|b| *b != 0).unwrap() + 1;
                    let now = sim.disk().contents(&path).expect("it is there");
                    assert!(now.len() >= used && now[..used] == bytes[..used], "{op:?} {code}");
                }
            }
        }
    }
}

/// Appends to a log for which there may be no descriptors, and closes it; false where what consumers
/// have stored could not be read: not before it can be.
async fn appends_where_offsets_are_known(log: Log) -> bool {
    let reply = append(&log, &batch(1, &[10]), Ack::Durable);
    log.flush(Ack::Durable).await.unwrap();
    let refused = reply.get().and_then(Result::err);
    if let Some(refused) = &refused {
        assert!(matches!(refused, AppendError::Offsets(_)), "{refused}");
    } else if let Err(error) = log.store_offset(consumer(1), 0, Ack::Durable).await {
        let OffsetError::Io(error) = error else { panic!("{error}") };
        assert!(error.is_out_of_files(), "{error}");
    }
    if let Err(error) = log.close().await {
        // Its end is not in order, which says the error; its handles are back.
        let CloseError::Io(error) = error else { panic!("{error}") };
        assert!(error.is_out_of_files(), "{error}");
    }
    refused.is_none()
}

/// Descriptors run out at every place where one is opened: typed errors with the path, nothing lost,
/// and all of it works again when there are some.
#[test]
fn without_descriptors_errors_are_typed_and_everything_works_again() {
    let sim = Sim::new(6);
    sim.run(async {
        let limits = SharedLimits { cache_bytes: 0, open_files: 2, ..SharedLimits::default() };
        let shared = Shared::new(sim.platform().clone(), limits);
        let (log, _) = Log::open(shared.clone(), place(), small_segments()).await.unwrap();
        let mut model = Model::default();
        let mut rng = Rng::new(6);
        let (mut appends, mut polls, mut opens, mut unread) = (0, 0, 0, 0);
        for round in 0..60_u64 {
            let few = sim.disk().open_files() + rng.below(3) as usize;
            sim.disk().set_open_files_max(few);
            for tag in 0..4 {
                let bytes = batch(round * 100 + tag, &[100_000]);
                let reply = append(&log, &bytes, Ack::Written);
                log.flush(Ack::Written).await.unwrap();
                match reply.get().unwrap() {
                    Ok(appended) => model.push(bytes, appended),
                    // No file for the next segment, or none for this one, which was parked.
                    Err(AppendError::NoSegment(error) | AppendError::NoFile(error)) => {
                        let code = error.source.raw_os_error();
                        assert_eq!(code, Some(errno::EMFILE), "{error}");
                        appends += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            let offset = rng.below(model.end());
            match poll(&log, From::Offset(offset), 1, 1).await {
                Ok(got) => assert_eq!(got.batches()[0].header().base_offset, offset),
                Err(PollError::Io(error)) => {
                    assert_eq!((error.op, error.source.raw_os_error()), (IoOp::Open, Some(24)));
                    polls += 1;
                }
                Err(error) => panic!("{error}"),
            }
            let other = Place { dir: place().dir.join(format!("o{}", round % 3)), ..place() };
            match Log::open(shared.clone(), other, small_segments()).await {
                Ok((other, _)) => {
                    unread += u32::from(!appends_where_offsets_are_known(other).await)
                }
                Err(OpenError::Io(error)) => {
                    assert_eq!((error.op, error.source.raw_os_error()), (IoOp::Open, Some(24)));
                    opens += 1;
                }
                Err(error) => panic!("{error}"),
            }
            sim.disk().set_open_files_max(usize::MAX);
            if round % 10 == 9 {
                model.check_all(&log, &mut rng).await;
            }
        }
        let met = [appends, polls, opens, unread];
        assert!(met[0] > 2 && met[1] > 5 && met[2] > 5 && met[3] > 0, "{met:?}");
        assert!(log.fault().is_none());
        log.close().await.unwrap();
        let log = open(sim.platform(), small_segments()).await;
        model.check_all(&log, &mut rng).await;
    });
}
