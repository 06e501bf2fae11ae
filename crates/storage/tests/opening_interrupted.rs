//! An open that is cut off after any number of steps, twice, and then runs through: it must come to
//! what one open without interruption comes to.

mod common;

use common::*;
use corelog_io::IoOp;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_storage::{Ack, From, OpenDamage, PollError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    /// A batch in the tail is gone, whole ones stand behind it, and a later segment, too.
    TornTail,
    /// Damage below the mark.
    Corrupt,
    /// The newest segment is not there.
    Missing,
    /// The manifest is gone and the last segment is empty.
    Foreign,
}

/// A partition in the state that `harm` describes, and how many batches must be left of it.
fn harmed(harm: Harm, seed: u64) -> (Sim, Model, usize) {
    let sim = Sim::new(seed);
    let mut model = Model::default();
    let close = matches!(harm, Harm::Corrupt | Harm::Missing | Harm::Foreign);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        if harm == Harm::TornTail {
            // The mark stays behind.
            sim.disk().inject(Fault::fail(errno::ENOSPC).of(IoOp::Open).on("manifest").for_ever());
        }
        let sizes: &[usize] =
            if harm == Harm::Corrupt { &[500; 6] } else { &[1 << 20, 90, 80, 70] };
        for (tag, len) in sizes.iter().enumerate() {
            let bytes = batch(tag as u64, &[*len]);
            let appended = append_wait(&log, &bytes, Ack::Durable).await;
            model.push(bytes, appended);
        }
        if close {
            log.close().await.unwrap();
        }
    });
    sim.disk().process_kill(seed);
    sim.disk().lift_all();
    let len = |i: usize| model.batches[i].0.len() as u64;
    let left = match harm {
        Harm::TornTail => {
            sim.disk().zero(log_file(1), len(1)..len(1) + len(2)).unwrap();
            let behind = &model.batches[3].0;
            let header = corelog_format::admit(behind).unwrap().stamp(u64::from(PARTITION), 9, 7);
            sim.disk().put(log_file(9), &[&header[..], &behind[256..]].concat()).unwrap();
            2
        }
        Harm::Corrupt => {
            sim.disk().flip_bit(log_file(0), len(0) * 4 + 300, 1).unwrap();
            4
        }
        Harm::Missing => {
            sim.disk().delete(log_file(1)).unwrap();
            1
        }
        Harm::Foreign => {
            sim.disk().delete(place().dir.join(corelog_storage::MANIFEST_FILE)).unwrap();
            sim.disk().put(log_file(4), &[]).unwrap();
            4
        }
    };
    (sim, model, left)
}

/// The log after the last open: what is left, where it goes on, and what was kept aside.
fn judged(sim: &Sim, harm: Harm, model: &Model, left: usize, what: &str) {
    sim.run(async {
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        let mut prefix = Model { batches: model.batches[..left].to_vec() };
        prefix.check_all(&log, &mut Rng::new(1)).await;
        let end = log.watermarks().appended();
        match harm {
            Harm::TornTail => assert_eq!(end, prefix.end(), "{what}"),
            _ => assert_eq!(end, model.end(), "{what}: no offset is used twice"),
        }
        assert!(report.damage.iter().all(|d| *d != OpenDamage::Manifest), "{what}");
        let bytes = batch(99, &[10]);
        let appended = append_wait(&log, &bytes, Ack::Durable).await;
        assert_eq!(appended.base_offset, end, "{what}");
        match poll(&log, From::Timestamp(appended.base_timestamp), 1, 1).await {
            Ok(got) => assert_eq!(got.next, end + 1, "{what}"),
            // What is damaged or missing before it could have been the first at that time.
            Err(PollError::Corrupt { resume_offset, .. })
                if matches!(harm, Harm::Corrupt | Harm::Missing) =>
            {
                assert_eq!(resume_offset, Some(end), "{what}");
            }
            Err(error) => panic!("{what}: {error}"),
        }
        prefix.push(bytes, appended);
        log.close().await.unwrap();
    });
    let aside: Vec<_> = sim
        .disk()
        .files()
        .into_iter()
        .filter(|p| p.starts_with(place().dir.join("quarantine")))
        .collect();
    let holds = |tag: usize| {
        let frames = &model.batches[tag].0[256..];
        let holds =
            |p: &_| sim.disk().contents(p).unwrap().windows(frames.len()).any(|w| w == frames);
        aside.iter().any(holds)
    };
    match harm {
        Harm::TornTail => assert!(holds(3), "{what}: whole batches that are cut are kept aside"),
        _ => assert!(aside.is_empty(), "{what}: {aside:?}"),
    }
}

#[test]
fn an_open_that_is_cut_off_twice_comes_to_the_same() {
    for harm in [Harm::TornTail, Harm::Corrupt, Harm::Missing, Harm::Foreign] {
        let (sim, model, left) = harmed(harm, 0);
        judged(&sim, harm, &model, left, "without interruption");
        for first in 1..90 {
            let (sim, model, left) = harmed(harm, first);
            let mut rng = Rng::new(first);
            for steps in [first, rng.between(1, 90)] {
                let opened = sim.run_until_halt(steps, try_open(sim.platform(), small_segments()));
                drop(opened);
                match rng.chance(1, 2) {
                    true => sim.disk().power_cut(rng.next_u64()),
                    false => sim.disk().process_kill(rng.next_u64()),
                }
            }
            judged(&sim, harm, &model, left, &format!("{harm:?}, cut off after {first} steps"));
        }
    }
}
