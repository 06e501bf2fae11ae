//! What opening costs: as many operations for a thousand segments as for one, nothing written after
//! a clean close, and few reads where an index lies all over.

mod common;

use bytes::Bytes;
use common::*;
use corelog_format::IndexEntry;
use corelog_io::IoOp;
use corelog_io::sim::Sim;
use corelog_storage::{Ack, From, LogConfig};

const OPS: [IoOp; 13] = [
    IoOp::Open,
    IoOp::Lock,
    IoOp::Read,
    IoOp::Write,
    IoOp::Sync,
    IoOp::Allocate,
    IoOp::SetLen,
    IoOp::Close,
    IoOp::CreateDir,
    IoOp::List,
    IoOp::SyncDir,
    IoOp::Rename,
    IoOp::Remove,
];

/// What is asked of the disk while the log is opened: operations by kind, and bytes read.
fn cost_of_opening(sim: &Sim, config: &LogConfig) -> ([u64; 13], u64) {
    let now = || (OPS.map(|op| sim.disk().count(op)), sim.disk().bytes(IoOp::Read));
    let before = now();
    let log = sim.run(open(sim.platform(), config.clone()));
    let after = now();
    drop(log);
    sim.disk().process_kill(0);
    (std::array::from_fn(|op| after.0[op] - before.0[op]), after.1 - before.1)
}

fn stored(offset: u64) -> Bytes {
    as_stored(&batch(offset, &[100]), PARTITION, offset, 5_000 + offset)
}

/// Sealed segments of one batch each, and the engine's own last one.
fn segments(count: u64) -> Sim {
    let sim = Sim::new(count);
    for offset in 0..count {
        sim.disk().put(log_file(offset), &stored(offset)).unwrap();
    }
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        assert_eq!(log.watermarks().appended(), count);
        append_wait(&log, &batch(1, &[1_000]), Ack::Durable).await;
        log.close().await.unwrap();
        assert_eq!(log.stats().segments as u64, count);
    });
    sim
}

#[test]
fn the_number_of_segments_costs_no_operation() {
    let costs = [1, 10, 100, 1_000].map(|count| {
        let sim = segments(count);
        let closed = cost_of_opening(&sim, &LogConfig::default());
        // And above the mark: a life that was killed.
        sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            append_wait(&log, &batch(1, &[1_000]), Ack::Written).await;
            append_wait(&log, &batch(2, &[1_000]), Ack::Written).await;
        });
        sim.disk().process_kill(1);
        (closed, cost_of_opening(&sim, &LogConfig::default()))
    });
    assert_eq!(costs[0], costs[1]);
    assert_eq!(costs[0], costs[2]);
    assert_eq!(costs[0], costs[3]);
}

#[test]
fn opening_what_was_closed_writes_nothing() {
    let sim = segments(3);
    let (ops, _) = cost_of_opening(&sim, &LogConfig::default());
    for (op, count) in OPS.into_iter().zip(ops) {
        let changes =
            !matches!(op, IoOp::Open | IoOp::Read | IoOp::SetLen | IoOp::Close | IoOp::List);
        assert!(!changes || count == 0, "{op:?}: {count}");
    }
    assert!(ops.iter().sum::<u64>() < 20, "{ops:?}");
}

/// Ten thousand partitions are opened at once after a crash: each sync is one too many that is not needed.
#[test]
fn opening_after_a_kill_syncs_the_log_and_stores_the_mark() {
    let sim = segments(3);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        append_wait(&log, &batch(1, &[1_000]), Ack::Written).await;
    });
    sim.disk().process_kill(1);
    let (ops, _) = cost_of_opening(&sim, &LogConfig::default());
    let count = |op| ops[OPS.iter().position(|known| *known == op).unwrap()];
    // The log's blocks, and the manifest's slot.
    assert_eq!((count(IoOp::Write), count(IoOp::Sync), count(IoOp::SyncDir)), (2, 1, 0), "{ops:?}");
}

#[test]
fn an_index_that_lies_all_over_costs_a_few_reads() {
    let config = LogConfig { index_step: 4096, ..LogConfig::default() };
    let sim = Sim::new(2);
    let model = sim.run(filled(sim.platform(), config.clone(), &[3_900; 1_000]));
    let (honest, _) = cost_of_opening(&sim, &config);
    let bytes = sim.disk().contents(index_file(0)).unwrap();
    assert!(bytes.len() > 24 * 900);
    for (i, raw) in bytes.chunks_exact(24).enumerate().skip(1) {
        let entry = IndexEntry::decode(raw.try_into().unwrap());
        let entry = IndexEntry { position: entry.position + 1, ..entry };
        sim.disk().overwrite(index_file(0), i as u64 * 24, &entry.encode()).unwrap();
    }
    let (lying, read) = cost_of_opening(&sim, &config);
    let reads = lying[2] - honest[2];
    assert!((5..25).contains(&reads), "{reads} reads of {} entries", bytes.len() / 24);
    assert!(read < 16 << 20, "{read} bytes read of 4 MiB");
    sim.run(async {
        let log = open(sim.platform(), config.clone()).await;
        assert_eq!(log.watermarks().appended(), model.end());
        // The walk has made it anew.
        let before = log.stats().disk_read_bytes;
        poll(&log, From::Offset(500), 1, 1).await.unwrap();
        assert!(log.stats().disk_read_bytes - before < 100_000);
    });
}
