//! Reads that fail: an error is never "no such offset" and never "end of log".

mod common;

use common::*;
use corelog_io::IoOp;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_storage::{Ack, Appended, From, LogConfig, PollError, SharedLimits};

/// Messages of a log of several segments, one a batch.
async fn filled_log(sim: &Sim) -> (Log, Model) {
    // Nothing is kept in memory: every poll reads.
    let limits = SharedLimits {
        cache_bytes: 0,
        open_files: 1,
        loaded_indexes: 1,
        ..SharedLimits::default()
    };
    let config = LogConfig { index_step: 4096, ..small_segments() };
    let (log, _) = open_limited(sim.platform(), config, limits).await.unwrap();
    let mut model = Model::default();
    for tag in 0..45 {
        let bytes = batch(tag, &[70_000]);
        let appended = append_wait(&log, &bytes, Ack::Written).await;
        model.push(bytes, appended);
    }
    (log, model)
}

/// Every kind of poll, with every n-th operation of it failing: the right bytes, or the error.
#[test]
fn each_operation_of_each_poll_may_fail_and_the_poll_says_so() {
    let sim = Sim::new(1);
    sim.run(async {
        let (log, model) = filled_log(&sim).await;
        let at = |i: usize| model.batches[i].1;
        let (near, far) = (at(3), at(20));
        let queries = [
            (From::First, 0),
            (From::Offset(near.base_offset), 3),
            (From::Offset(far.base_offset), 20),
            (From::Offset(at(44).base_offset), 44),
            (From::Last(40), 5),
            (From::Timestamp(0), 0),
            (From::Timestamp(near.base_timestamp), 3),
            (From::Timestamp(far.base_timestamp - 1), 20),
            (From::Timestamp(at(44).base_timestamp), 44),
        ];
        let mut failed = 0;
        for (code, op) in
            [(errno::EIO, IoOp::Read), (errno::EIO, IoOp::Open), (errno::EMFILE, IoOp::Open)]
        {
            for (place, expected) in queries {
                for nth in 1.. {
                    let fault =
                        sim.disk().inject(Fault::fail(code).of(op).from_nth(nth).for_ever());
                    let result = poll(&log, place, 1, 1).await;
                    let met = sim.disk().hits(fault) > 0;
                    sim.disk().lift(fault);
                    match result {
                        Ok(got) => {
                            assert_eq!(got.messages, 1, "{place:?}: an empty answer, {op:?} {nth}");
                            let (bytes, appended) = &model.batches[expected];
                            assert_same(&got.batches()[0], bytes, *appended);
                        }
                        Err(PollError::Io(error) | PollError::Unreadable { error, .. }) => {
                            assert!(met && error.op == op, "{place:?}: {error}");
                            assert!(error.source.raw_os_error() == Some(code));
                            failed += 1;
                        }
                        Err(error) => panic!("{place:?}: {op:?} {nth}: {error}"),
                    }
                    if !met {
                        break;
                    }
                }
            }
        }
        assert!(failed > 40, "{failed}");
        model.check_all(&log, &mut Rng::new(1)).await;
    });
}

/// A disk whose reads all fail still says where the log stands and takes appends; what is in memory
/// is served.
#[test]
fn a_disk_that_cannot_be_read_takes_appends_and_serves_from_memory() {
    let sim = Sim::new(2);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Read).for_ever());
        let mut model = Model::default();
        for tag in 0..20 {
            let bytes = batch(tag, &[10_000]);
            let appended = append_wait(&log, &bytes, Ack::Durable).await;
            model.push(bytes, appended);
        }
        model.check_all(&log, &mut Rng::new(1)).await;
        assert!(log.fault().is_none(), "a failed read harms nothing");
    });
}

/// Damage, a hole and a disk error have three names, in whatever state the index is.
#[test]
fn damage_is_not_an_io_error_and_an_io_error_is_not_damage() {
    let sim = Sim::new(3);
    sim.run(async {
        let (log, model) = filled_log(&sim).await;
        let Appended { base_offset, .. } = model.batches[5].1;
        let at: u64 = model.batches[..5].iter().map(|(bytes, _)| bytes.len() as u64).sum();
        sim.disk().flip_bit(log_file(0), at + 1000, 3).unwrap();
        for unreadable_index in [false, true] {
            if unreadable_index {
                sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Read).on(".index").for_ever());
                sim.disk()
                    .inject(Fault::fail(errno::EMFILE).of(IoOp::Open).on(".index").for_ever());
            }
            // Another segment's index takes the one place in memory.
            poll(&log, From::Offset(30), 1, 1).await.unwrap();
            let error = poll(&log, From::Offset(base_offset), 1, 1).await.unwrap_err();
            let PollError::Corrupt { segment: 0, position, resume_offset, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(position, at);
            let resume = resume_offset.expect("more follows");
            assert!(resume > base_offset);
            let got = poll(&log, From::Offset(resume), 1, 1).await.unwrap();
            assert_eq!(got.batches()[0].header().base_offset, resume);
            let fault =
                sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Read).on(".log").for_ever());
            let error = poll(&log, From::Offset(base_offset), 1, 1).await.unwrap_err();
            assert!(matches!(error, PollError::Unreadable { .. }), "{error}");
            sim.disk().lift(fault);
        }
    });
}
