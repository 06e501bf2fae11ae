//! Kills and power cuts at any moment: what was answered stands, offsets and time go on.
//!
//! The oracle knows the contract only: acknowledged batches in a list, and four questions - present,
//! in order, gap-free, byte-identical.

mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use common::*;
use corelog_format::BatchHeader;
use corelog_io::sim::{Rng, Sim, SimPlatform};
use corelog_io::{Clock, Platform};
use corelog_storage::{Ack, Appended, From, LogConfig, SharedLimits};

/// What the world knows after some lives of one partition.
#[derive(Default)]
struct Oracle {
    /// By base offset: the producer's bytes and the answer, for what must survive.
    kept: BTreeMap<u64, (Bytes, Appended)>,
    /// Highest timestamp ever stamped and seen.
    time: u64,
    /// Offsets below this were safe at the last crash: never used again.
    safe_end: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Crash {
    Kill,
    PowerCut,
}

/// One life: random work until the crash. Gives every append that was made with its answer.
async fn live(
    platform: &SimPlatform,
    log: &Log,
    rng: &mut Rng,
    made: &RefCell<Vec<(Bytes, Ack, Reply)>>,
) {
    for _ in 0..rng.between(5, 80) {
        let bytes = random_batch(rng, 60_000);
        let ack = [Ack::Appended, Ack::Written, Ack::Durable][rng.index(3)];
        let reply = append(log, &bytes, ack);
        made.borrow_mut().push((bytes, ack, reply));
        match rng.below(12) {
            0 => log.flush(Ack::Durable).await.unwrap(),
            1 => log.flush(Ack::Written).await.unwrap(),
            2 => {
                let end = log.readable_end();
                let from = rng.below(end + 1);
                let got = poll(log, From::Offset(from), 5, 10_000).await.unwrap();
                assert!(got.messages > 0 || from >= end);
            }
            3 => {
                let pause = Duration::from_micros(rng.below(9_000));
                platform.clock().sleep(pause).await;
            }
            _ => {}
        }
    }
}

impl Oracle {
    /// Checks a freshly opened log: everything kept is there, and what else is there was appended.
    async fn check(&mut self, log: &Log, made: &[(Bytes, Ack, Reply)], seed: u64) {
        let marks = log.watermarks();
        assert!(marks.appended() >= self.safe_end, "seed {seed}: offsets below the end are used");
        let mut next = 0;
        let mut found = BTreeMap::new();
        while next < marks.appended() {
            let got = poll(log, From::Offset(next), u32::MAX, 1 << 20).await;
            let got = got.unwrap_or_else(|error| panic!("seed {seed}: poll at {next}: {error}"));
            assert!(got.messages > 0, "seed {seed}: nothing at {next} of {}", marks.appended());
            for batch in got.batches() {
                let header = *batch.header();
                assert_eq!(header.base_offset, next, "seed {seed}: dense");
                next = header.end_offset().unwrap();
                found.insert(header.base_offset, (header, batch.bytes()[256..].to_vec()));
            }
        }
        let mut time = 0;
        for (header, _) in found.values() {
            assert!(header.base_timestamp > time, "seed {seed}: time goes back");
            time = header.base_timestamp;
        }
        for (offset, (bytes, appended)) in &self.kept {
            let Some((header, frames)) = found.get(offset) else {
                panic!("seed {seed}: acknowledged batch at {offset} is lost");
            };
            assert_eq!(header.base_timestamp, appended.base_timestamp, "seed {seed}");
            assert_eq!(frames[..], bytes[256..], "seed {seed}: batch at {offset} differs");
        }
        self.only_what_was_appended(&found, made, seed);
        // What is there now is durable: it was made so before it was shown.
        for (offset, (header, frames)) in found {
            let mut bytes = vec![0; 256];
            bytes.extend_from_slice(&frames);
            let BatchHeader { base_offset, base_timestamp, message_count, .. } = header;
            let appended = Appended { base_offset, base_timestamp, message_count };
            self.kept.entry(offset).or_insert((bytes.into(), appended));
        }
        self.safe_end = marks.appended();
    }

    fn only_what_was_appended(
        &self,
        found: &BTreeMap<u64, (BatchHeader, Vec<u8>)>,
        made: &[(Bytes, Ack, Reply)],
        seed: u64,
    ) {
        for (offset, (_, frames)) in found {
            let known = self.kept.contains_key(offset)
                || made.iter().any(|(bytes, _, _)| bytes[256..] == frames[..]);
            assert!(known, "seed {seed}: the batch at {offset} was never appended");
        }
    }

    /// Takes over what was answered before the crash.
    fn crashed(&mut self, made: &[(Bytes, Ack, Reply)], crash: Crash, enforce_fsync: bool) {
        for (bytes, ack, reply) in made {
            let Some(appended) = reply.ok() else { continue };
            self.time = self.time.max(appended.base_timestamp);
            let level = if enforce_fsync { Ack::Durable } else { *ack };
            let survives = match crash {
                Crash::Kill => level >= Ack::Written,
                Crash::PowerCut => level == Ack::Durable,
            };
            if survives {
                self.kept.insert(appended.base_offset, (bytes.clone(), appended));
                let end = appended.base_offset + u64::from(appended.message_count);
                self.safe_end = self.safe_end.max(end);
            }
        }
    }
}

fn lives(seed: u64, count: usize) {
    let sim = Sim::new(seed);
    let mut rng = Rng::new(seed ^ 0xC0FFEE);
    let config = LogConfig {
        enforce_fsync: rng.chance(1, 3),
        preallocate_segments: rng.chance(1, 4),
        ..small_segments()
    };
    let limits = SharedLimits {
        cache_bytes: [0, 64 << 10, 16 << 20][rng.index(3)],
        write_bytes: [8 << 10, 64 << 10, 1 << 20][rng.index(3)],
        writes_in_flight: [1, 3, 8][rng.index(3)],
        ..SharedLimits::default()
    };
    let mut oracle = Oracle::default();
    for life in 0..count {
        let made = RefCell::new(Vec::new());
        let steps = rng.between(1, 1_500);
        let mut inner = rng.fork();
        let body = async {
            let opened = open_limited(sim.platform(), config.clone(), limits.clone()).await;
            let (log, _) = opened.unwrap_or_else(|e| panic!("seed {seed} life {life}: {e}"));
            live(sim.platform(), &log, &mut inner, &made).await;
            if inner.chance(1, 3) {
                log.close().await.unwrap();
            } else {
                // Idle until the steps are used up: the crash comes at any moment.
                loop {
                    sim.clock().sleep(Duration::from_millis(10)).await;
                }
            }
        };
        // Half of the crashes hit the open itself or the first appends.
        let steps = if rng.chance(1, 2) { steps / 10 } else { steps };
        let _ = sim.run_until_halt(steps, body);
        let crash = if rng.chance(1, 2) { Crash::Kill } else { Crash::PowerCut };
        let made = made.into_inner();
        oracle.crashed(&made, crash, config.enforce_fsync);
        match crash {
            Crash::Kill => sim.disk().process_kill(rng.next_u64()),
            Crash::PowerCut => sim.disk().power_cut(rng.next_u64()),
        }
        sim.clock().step(rng.below(3_000_000) as i64 - 2_000_000);
        sim.run(async {
            let opened = open_limited(sim.platform(), config.clone(), limits.clone()).await;
            let (log, report) = opened.unwrap_or_else(|e| panic!("seed {seed} life {life}: {e}"));
            assert_eq!(report.damage, [], "seed {seed} life {life}: no disk lied");
            oracle.check(&log, &made, seed).await;
            let bytes = batch(seed, &[10]);
            let appended = append_wait(&log, &bytes, Ack::Durable).await;
            assert!(appended.base_offset >= oracle.safe_end, "seed {seed}: an offset used again");
            assert!(appended.base_timestamp > oracle.time, "seed {seed}: time goes back");
            oracle.kept.insert(appended.base_offset, (bytes, appended));
            oracle.safe_end = appended.base_offset + 1;
            if seed.is_multiple_of(2) {
                log.close().await.unwrap();
            }
        });
        if seed % 2 == 1 {
            sim.disk().process_kill(rng.next_u64());
        }
    }
}

/// Seeds in one run; more through `CORELOG_SEEDS`, which long campaigns set.
fn seeds() -> u64 {
    std::env::var("CORELOG_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(150)
}

#[test]
fn many_lives_lose_nothing_that_was_answered() {
    for seed in 0..seeds() {
        lives(seed, 4);
    }
}
