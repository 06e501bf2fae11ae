//! A creation that was killed before its manifest was durable.

mod common;

use common::*;
use corelog_io::IoOp;
use corelog_io::sim::{Fault, Sim, errno};
use corelog_storage::{Ack, LogConfig, MANIFEST_FILE};

#[test]
fn a_manifest_that_only_the_cache_holds_is_stored_again() {
    let mut lost = 0;
    for cut in 0..20 {
        let sim = Sim::new(cut);
        sim.run(async {
            // The write ends the process: its bytes are in the cache at most.
            let fails = Fault::fail(errno::EIO).of(IoOp::Write).on(MANIFEST_FILE);
            sim.disk().inject(fails.for_ever());
            assert!(try_open(sim.platform(), LogConfig::default()).await.is_err());
        });
        sim.disk().process_kill(cut);
        sim.disk().lift_all();
        sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
        });
        sim.disk().power_cut(cut);
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            lost += u64::from(report.adopted);
            assert!(report.damage.is_empty(), "{report:?}");
            assert_eq!(log.watermarks().durable(), 1, "{report:?}");
        });
    }
    assert_eq!(lost, 0, "of 20 logs so many lost their manifest");
}
