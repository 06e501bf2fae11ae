//! Batches of every length at the tail: the padding behind them is never data, and what was durable
//! in a block stays when the block is written again.

mod common;

use common::*;
use corelog_format::{Expect, Step, scan};
use corelog_io::sim::{Rng, Sim};
use corelog_io::{BLOCK, align_up};
use corelog_storage::{Ack, LogConfig};

/// Where the batches of a file end, for another reader; only zeros may follow.
fn end_of(bytes: &[u8]) -> u64 {
    for step in scan(bytes, 0, Expect::default()) {
        match step {
            Step::Batch { .. } => {}
            Step::End { at } => return at,
            other => panic!("{other:?}"),
        }
    }
    unreachable!("a scan ends with its end")
}

#[test]
fn every_length_ends_where_it_should_for_every_reader() {
    let config = LogConfig::default;
    // Two batches, the first of each length: then the second begins at every place in a block, and
    // shares one with the first or does not.
    for size in 1..=8193 {
        let sim = Sim::new(size as u64);
        let mut model = Model::default();
        sim.run(async {
            let log = open(sim.platform(), config()).await;
            for (tag, len) in [(1, size), (2, 30)] {
                let bytes = batch(tag, &[len]);
                model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
                let end = *starts(&model).last().unwrap();
                // A reader beside us, and whoever opens it after a power cut at this moment.
                let file = sim.disk().contents(log_file(0)).unwrap();
                assert_eq!(end_of(&file), end, "size {size}");
                assert!(file.len() as u64 >= align_up(end), "whole blocks are written");
                let durable = sim.disk().durable_contents(log_file(0)).unwrap();
                assert!(durable[..end as usize] == file[..end as usize], "size {size}");
            }
            log.close().await.unwrap();
        });
        let end = *starts(&model).last().unwrap();
        let file = sim.disk().contents(log_file(0)).unwrap();
        assert_eq!(file.len() as u64, end, "size {size}: a close cuts the padding off");
        sim.run(async {
            let log = open(sim.platform(), config()).await;
            assert_eq!(log.watermarks().appended(), 2);
            model.check_all(&log, &mut Rng::new(1)).await;
            log.close().await.unwrap();
        });
    }
}

/// The power fails while the tail block, durable as it is, is being written again with more in it.
#[test]
fn what_was_durable_in_a_block_outlives_a_torn_rewrite_of_it() {
    for enforce_fsync in [false, true] {
        let mut kept = [0; 2];
        for seed in 0..400 {
            let config = LogConfig { enforce_fsync, ..LogConfig::default() };
            let sim = Sim::new(seed);
            let mut rng = Rng::new(seed);
            let mut model = Model::default();
            let log = sim.run(async {
                let log = open(sim.platform(), config.clone()).await;
                for tag in 0..rng.between(1, 4) {
                    let bytes = batch(tag, &[rng.below(1_200) as usize]);
                    model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
                }
                log
            });
            let end = *starts(&model).last().unwrap();
            if end.is_multiple_of(BLOCK as u64) {
                continue;
            }
            let next = batch(99, &[rng.below(6_000) as usize]);
            let reply = append(&log, &next, Ack::Durable);
            sim.run_until_halt(rng.below(12), std::future::pending::<()>());
            drop(log);
            match seed % 2 {
                0 => sim.disk().power_cut(seed),
                _ => sim.disk().process_kill(seed),
            }
            sim.run(async {
                let (log, report) = try_open(sim.platform(), config.clone()).await.unwrap();
                assert_eq!(report.damage, [], "seed {seed}");
                let all = log.watermarks().appended();
                assert!(all >= model.end() && all <= model.end() + 1, "seed {seed}: {all}");
                assert!(reply.ok().is_none() || all > model.end(), "seed {seed}: answered");
                kept[usize::from(all > model.end())] += 1;
                model.take_in(&log).await;
                model.check_all(&log, &mut Rng::new(seed)).await;
                // The block is written again by this life, too.
                let bytes = batch(7, &[30]);
                let appended = append_wait(&log, &bytes, Ack::Durable).await;
                assert_eq!(appended.base_offset, all);
                model.push(bytes, appended);
                model.check_all(&log, &mut Rng::new(seed)).await;
            });
            sim.disk().power_cut(seed);
            sim.run(async {
                let log = open(sim.platform(), config.clone()).await;
                assert_eq!(log.watermarks().appended(), model.end(), "seed {seed}");
                model.check_all(&log, &mut Rng::new(seed)).await;
            });
        }
        assert!(kept.iter().all(|count| *count > 20), "torn and whole: {kept:?}");
    }
}
