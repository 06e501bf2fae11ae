//! Random polls beside random appends, under scarce buffers and caches: every answer is a part of
//! what was appended, none is empty where there was something, and times lead to their batches.

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use common::*;
use corelog_io::sim::{Rng, Sim};
use corelog_io::{Clock, Platform, Spawn};
use corelog_storage::{Ack, From, LogConfig, SharedLimits};

type Times = Rc<RefCell<Vec<(u64, u64, Vec<u8>)>>>;

/// One reader: random polls until `stop`, each compared with what was appended.
async fn reads(
    log: Log,
    sim: corelog_io::sim::SimPlatform,
    mut rng: Rng,
    made: Times,
    stop: Rc<Cell<bool>>,
    seed: u64,
) {
    let mut next = 0;
    while !stop.get() {
        let end = log.readable_end();
        let known = made.borrow().clone();
        let from = match rng.below(8) {
            // On from where the last poll ended: such a reader is read ahead for.
            5.. => From::Offset(next),
            0 => From::First,
            1 => From::Last(rng.below(20) as u32),
            2 if !known.is_empty() => {
                let (_, time, _) = known[rng.index(known.len())];
                From::Timestamp(time - rng.below(2))
            }
            _ => From::Offset(rng.below(end + 2)),
        };
        let got = poll(&log, from, 1 + rng.below(40) as u32, rng.below(200_000) as usize).await;
        let got = got.unwrap_or_else(|error| panic!("seed {seed}: {from:?}: {error}"));
        next = if got.messages > 0 { got.next } else { rng.below(end + 1) };
        let now = made.borrow().clone();
        for batch in got.batches() {
            let header = *batch.header();
            // What was not answered yet is not known here.
            let known = now.binary_search_by_key(&header.base_offset, |(base, _, _)| *base);
            if let Ok((_, time, bytes)) = known.map(|at| &now[at]) {
                assert_eq!(header.base_timestamp, *time, "seed {seed}");
                let frames = &batch.bytes()[256..];
                assert!(
                    bytes.windows(frames.len()).any(|w| w == frames),
                    "seed {seed}: other bytes"
                );
            }
        }
        match from {
            From::Offset(offset) if offset < end => {
                assert!(got.messages > 0, "seed {seed}: nothing at {offset} of {end}");
                assert_eq!(got.batches()[0].first_offset(), offset, "seed {seed}");
            }
            From::Timestamp(time) => {
                let first = known.iter().find(|(_, t, _)| *t >= time).map(|(base, _, _)| *base);
                if let Some(base) = first.filter(|base| *base < end) {
                    assert!(
                        got.messages > 0,
                        "seed {seed}: none at {time}, offset {base}; end {end}, now {}, next {}",
                        log.readable_end(),
                        got.next
                    );
                    // One that was not answered yet may stand before it.
                    let batches = got.batches();
                    let (at, stamped) =
                        (batches[0].first_offset(), batches[0].header().base_timestamp);
                    assert!(at <= base && stamped >= time, "seed {seed}: {at} instead of {base}");
                }
            }
            _ => {}
        }
        sim.clock().sleep(Duration::from_micros(rng.below(3_000))).await;
    }
}

fn chaos(seed: u64) {
    let sim = Sim::new(seed);
    let mut rng = Rng::new(seed ^ 0xBEEF);
    let config = LogConfig {
        enforce_fsync: rng.chance(1, 4),
        verify_reads: rng.chance(3, 4),
        ..small_segments()
    };
    let limits = SharedLimits {
        cache_bytes: [0, 8 << 10, 64 << 10, 16 << 20][rng.index(4)],
        write_bytes: [4 << 10, 64 << 10, 1 << 20][rng.index(3)],
        flying_bytes: [0, 64 << 10, 1 << 20][rng.index(3)],
        writes_in_flight: [1, 2, 8][rng.index(3)],
        read_bytes: [4 << 10, 64 << 10, 1 << 20][rng.index(3)],
        read_ahead_bytes: [0, 16 << 10, 256 << 10, 8 << 20][rng.index(4)],
        held_bytes: [0, 64 << 10, 32 << 20][rng.index(3)],
        open_files: [1, 256][rng.index(2)],
        active_files: 1,
        consumers: 10_000,
        loaded_indexes: [1, 64][rng.index(2)],
    };
    if rng.chance(1, 3) {
        sim.disk().buffers().set_limit([12 << 10, 96 << 10, 1 << 20][rng.index(3)]);
    }
    sim.run(async {
        let (log, _) = open_limited(sim.platform(), config, limits).await.unwrap();
        let made: Times = Rc::default();
        let stop = Rc::new(Cell::new(false));
        let done = Rc::new(Cell::new(0));
        for _ in 0..3 {
            let (log, platform, made) = (log.clone(), sim.platform().clone(), Rc::clone(&made));
            let (stop, done, rng) = (Rc::clone(&stop), Rc::clone(&done), rng.fork());
            sim.platform().spawn().spawn(async move {
                reads(log, platform, rng, made, stop, seed).await;
                done.set(done.get() + 1);
            });
        }
        let mut waiting = Vec::new();
        for _ in 0..rng.between(10, 80) {
            let max = if rng.chance(1, 10) { 700_000 } else { 40_000 };
            let bytes = random_batch(&mut rng, max);
            let ack = [Ack::Appended, Ack::Written, Ack::Durable][rng.index(3)];
            waiting.push((bytes.clone(), append(&log, &bytes, ack)));
            if rng.chance(1, 3) {
                sim.clock().sleep(Duration::from_micros(rng.below(4_000))).await;
            }
            if rng.chance(1, 6) {
                log.flush(Ack::Appended).await.unwrap();
            }
            waiting.retain(|(bytes, reply)| {
                let Some(appended) = reply.ok() else { return true };
                let entry = (appended.base_offset, appended.base_timestamp, bytes[256..].to_vec());
                let mut made = made.borrow_mut();
                let at = made.partition_point(|(base, _, _)| *base < entry.0);
                made.insert(at, entry);
                false
            });
        }
        log.flush(Ack::Durable).await.unwrap();
        stop.set(true);
        for _ in 0..10_000 {
            if done.get() == 3 {
                break;
            }
            sim.clock().sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(done.get(), 3, "seed {seed}: a reader panicked or waits for ever");
        log.close().await.unwrap();
    });
}

#[test]
fn polls_beside_appends_see_a_log() {
    let seeds = std::env::var("CORELOG_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    for seed in 0..seeds {
        chaos(seed);
    }
}
