//! Openings that fail, at any operation: the next one behaves like a first one, and what it answers
//! holds.

mod common;

use common::*;
use corelog_io::IoOp;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_storage::{Ack, LogConfig, OpenError};

/// Creates a partition with the `nth` operation failing; says whether that was met and how it went.
async fn create_failing(sim: &Sim, code: i32, nth: u64) -> (bool, Result<Log, OpenError>) {
    let fault = sim.disk().inject(Fault::fail(code).from_nth(nth));
    let opened = try_open(sim.platform(), LogConfig::default()).await.map(|(log, _)| log);
    let met = sim.disk().hits(fault) > 0;
    sim.disk().lift(fault);
    (met, opened)
}

#[test]
fn a_creation_that_failed_anywhere_is_done_again() {
    for code in [errno::EIO, errno::ENOSPC, errno::EMFILE] {
        for nth in 1.. {
            let sim = Sim::new(nth);
            let met = sim.run(async {
                let (met, opened) = create_failing(&sim, code, nth).await;
                match opened {
                    Ok(log) => log.close().await.unwrap(),
                    Err(OpenError::Io(error)) => {
                        assert_eq!(error.source.raw_os_error(), Some(code), "{error}");
                        assert!(error.path.starts_with("/"), "{error}");
                    }
                    Err(error) => panic!("{nth}: {error}"),
                }
                assert_eq!(sim.disk().open_files(), 0, "{nth}: nothing is left open");
                met
            });
            sim.disk().process_kill(nth);
            sim.run(async {
                let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
                assert_eq!(report.damage, [], "{nth}");
                let appended = append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
                assert_eq!(appended.base_offset, 0);
                log.close().await.unwrap();
            });
            if !met {
                assert!(nth > 15, "the operations of a creation: {nth}");
                break;
            }
        }
    }
}

/// The sync of a name that failed says nothing when it succeeds later: names are made anew, those of
/// the directories above, too.
#[test]
fn a_name_whose_sync_failed_is_made_anew() {
    for nth in 1..30 {
        for cut in 0..4 {
            let sim = Sim::new(nth);
            let in_dir = "/";
            let model = sim.run(async {
                let fault = Fault::fail(errno::EIO).of(IoOp::SyncDir).on(in_dir).from_nth(nth);
                let fault = sim.disk().inject(fault);
                let opened = try_open(sim.platform(), LogConfig::default()).await;
                let met = sim.disk().hits(fault) > 0;
                sim.disk().lift(fault);
                if !met {
                    return None;
                }
                assert!(opened.is_err());
                drop(opened);
                let log = open(sim.platform(), LogConfig::default()).await;
                let mut model = Model::default();
                let bytes = batch(1, &[5_000]);
                let appended = append_wait(&log, &bytes, Ack::Durable).await;
                model.push(bytes, appended);
                Some(model)
            });
            let Some(model) = model else { return assert!(nth > 1) };
            sim.disk().power_cut(cut);
            sim.run(async {
                let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
                assert_eq!(report.damage, [], "{nth} {cut}");
                assert_eq!(log.watermarks().appended(), 1, "{nth} {cut}");
                model.check_all(&log, &mut Rng::new(1)).await;
            });
        }
    }
}
