//! The newest segment: damaged at its first byte, empty, only reserved, or just being begun when the
//! life ended. It is used, kept or put aside, and never in the way of the next one.

mod common;

use std::cell::RefCell;
use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp};
use corelog_storage::{Ack, AppendError, From, LogConfig, MANIFEST_FILE, OpenDamage, PollError};

/// Offset 0 fills the first segment, the others stand in the second.
const SIZES: [usize; 4] = [1 << 20, 700, 600, 500];

/// How the life before ended, and what is left of its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Closed,
    Killed,
    ManifestLost,
}

fn life(sim: &Sim, ended: Ended, sizes: &[usize]) -> Model {
    match ended {
        Ended::Killed => filled_and_killed(sim, small_segments(), sizes),
        _ => sim.run(filled(sim.platform(), small_segments(), sizes)),
    }
}

/// Offsets that polls serve; damage is stepped over.
async fn served(log: &Log) -> Vec<u64> {
    let (mut next, mut offsets) = (log.watermarks().start(), Vec::new());
    while next < log.watermarks().appended() {
        match poll(log, From::Offset(next), u32::MAX, 1 << 22).await {
            Ok(got) => {
                offsets.extend(got.batches().iter().map(|batch| batch.header().base_offset));
                next = got.next;
            }
            Err(PollError::Corrupt { resume_offset: Some(resume), .. }) => {
                assert!(resume > next, "stepping over goes forward");
                next = resume;
            }
            Err(error) => panic!("{error}"),
        }
    }
    offsets
}

#[test]
fn damage_at_its_first_byte_never_meets_its_own_name_again() {
    for ended in [Ended::Closed, Ended::Killed, Ended::ManifestLost] {
        for sizes in [&SIZES[..2], &SIZES[..]] {
            let what = format!("{ended:?}, {} batches in it", sizes.len() - 1);
            let sim = Sim::new(1);
            let model = life(&sim, ended, sizes);
            sim.disk().flip_bit(log_file(1), 9, 0).unwrap();
            if ended == Ended::ManifestLost {
                sim.disk().delete(place().dir.join(MANIFEST_FILE)).unwrap();
            }
            let damaged = sim.disk().contents(log_file(1)).unwrap();
            let intact = sim.disk().contents(log_file(0)).unwrap();
            // Above the mark it is cut, and what stood behind it is put aside. Below it everything
            // stays where it is, and polls step over the damage.
            let mut expected = vec![0];
            if ended != Ended::Killed {
                expected.extend(2..model.end());
            }
            let least = if ended == Ended::Closed { model.end() } else { 1 };
            for round in 0..3 {
                sim.run(async {
                    let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
                    if round == 0 {
                        let named = |d: &OpenDamage| {
                            matches!(d, OpenDamage::Corrupt { segment: 1, position: 0, .. })
                        };
                        let cut = ended == Ended::Killed;
                        assert_eq!(report.damage.iter().any(named), !cut, "{what}");
                        // Kept aside: the whole batches of what is cut, and a file that holds none
                        // where the next one needs its name.
                        let moved = ended == Ended::ManifestLost && sizes.len() == 2;
                        assert_eq!(report.cut_bytes > 0, cut || moved, "{what}");
                        let aside = moved || cut && sizes.len() > 2;
                        assert_eq!(report.quarantined.is_empty(), !aside, "{what}");
                    }
                    let next = append_wait(&log, &batch(90 + round, &[40]), Ack::Durable).await;
                    assert!(next.base_offset >= least, "{what}: {}", next.base_offset);
                    assert!(expected.iter().all(|offset| *offset < next.base_offset), "{what}");
                    expected.push(next.base_offset);
                    assert_eq!(served(&log).await, expected, "{what}, round {round}");
                });
                sim.disk().process_kill(round);
            }
            assert!(sim.disk().contents(log_file(0)).unwrap() == intact, "{what}");
            let mut files = sim.disk().files().into_iter().filter(|p| !p.ends_with("manifest"));
            let kept = files.any(|path| {
                let bytes = sim.disk().contents(path).unwrap();
                let all = damaged.iter().rposition(|byte| *byte != 0).unwrap() + 1;
                bytes.starts_with(&damaged[..all])
            });
            let is_all_torn = ended == Ended::Killed && sizes.len() == 2;
            assert_eq!(kept, !is_all_torn, "{what}: what may be read one day is kept");
        }
    }
}

#[test]
fn it_may_be_empty_or_hold_only_zeros() {
    for ended in [Ended::Closed, Ended::Killed, Ended::ManifestLost] {
        for zeros in [0, 1, 255, 256, 4096, 9_000, 1 << 20] {
            for sizes in [&[][..], &SIZES[..1], &SIZES[..]] {
                let what = format!("{ended:?}, {zeros} zeros, {} batches", sizes.len());
                let sim = Sim::new(2);
                let mut model = life(&sim, ended, sizes);
                sim.disk().put(log_file(model.end()), &vec![0; zeros]).unwrap();
                if ended == Ended::ManifestLost {
                    sim.disk().delete(place().dir.join(MANIFEST_FILE)).unwrap();
                }
                for round in 0..3 {
                    sim.run(async {
                        let opened = try_open(sim.platform(), small_segments()).await;
                        let (log, report) = opened.unwrap();
                        // Without a mark the name of a later file says that more was stored.
                        let gap = ended == Ended::ManifestLost && round == 0 && sizes.len() == 4;
                        assert!(gap || report.damage.is_empty(), "{what}: {:?}", report.damage);
                        assert_eq!(log.watermarks().appended(), model.end(), "{what}");
                        for place in [From::Last(1), From::Offset(model.end().saturating_sub(1))] {
                            let got = poll(&log, place, 9, 1).await.unwrap();
                            assert_eq!(got.messages, u32::from(model.end() > 0), "{what}");
                        }
                        assert_eq!(
                            poll(&log, From::Offset(model.end()), 9, 1).await.unwrap().messages,
                            0
                        );
                        let bytes = batch(90 + round, &[40]);
                        model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
                        model.check_all(&log, &mut Rng::new(round)).await;
                    });
                    sim.disk().process_kill(round);
                }
            }
        }
    }
}

#[test]
fn a_life_may_end_at_any_step_of_beginning_it() {
    let every = [(false, false), (false, true), (true, false), (true, true)];
    for (enforce_fsync, preallocate_segments) in every {
        let config = LogConfig { enforce_fsync, preallocate_segments, ..small_segments() };
        let (mut stored, mut lost) = (0, 0);
        for step in 1.. {
            let mut ended = 0;
            for (seed, power) in [(step, false), (step + 1_000, true), (step + 2_000, true)] {
                let what = format!("{config:?} step {step} power {power}");
                let sim = Sim::new(seed);
                let model = RefCell::new(Model::default());
                let log = sim.run(async {
                    let log = open(sim.platform(), config.clone()).await;
                    let bytes = batch(0, &[SIZES[0]]);
                    let appended = append_wait(&log, &bytes, Ack::Durable).await;
                    model.borrow_mut().push(bytes, appended);
                    log
                });
                let halt = sim.disk().inject(Fault::halt().from_nth(step));
                let next = batch(1, &[SIZES[1]]);
                let done = sim.run_until_halt(u64::MAX >> 1, async {
                    let appended = append_wait(&log, &next, Ack::Durable).await;
                    model.borrow_mut().push(next.clone(), appended);
                    log.close().await.unwrap();
                });
                sim.disk().lift(halt);
                drop(log);
                match power {
                    true => sim.disk().power_cut(seed),
                    false => sim.disk().process_kill(seed),
                }
                let mut model = model.into_inner();
                for round in 0..2 {
                    sim.run(async {
                        let (log, report) = try_open(sim.platform(), config.clone()).await.unwrap();
                        assert_eq!(report.damage, [], "{what}");
                        let end = log.watermarks().appended();
                        assert!((model.end()..=2 + round).contains(&end), "{what}: end {end}");
                        if round == 0 {
                            lost += u32::from(end == 1);
                            stored += u32::from(end == 2);
                        }
                        model.take_in(&log).await;
                        let bytes = batch(90 + round, &[40]);
                        model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
                        model.check_all(&log, &mut Rng::new(round)).await;
                    });
                    sim.disk().power_cut(seed);
                }
                ended += u32::from(done.is_some());
            }
            if ended == 3 {
                break;
            }
        }
        assert!(lost > 2 && stored > 2, "both happened: {lost}, {stored}");
    }
}

/// Its file cannot be made, now and then, for any reason: the append is refused, the next one tries
/// again, and nothing that is left behind is in the way, in this life or the next.
#[test]
fn a_file_that_cannot_be_begun_leaves_nothing_in_the_way() {
    for code in [errno::ENOSPC, errno::EMFILE, errno::EACCES] {
        for op in [IoOp::Open, IoOp::Allocate] {
            let is_refusal = code == errno::ENOSPC || op == IoOp::Open;
            let fault = Fault::fail(code).of(op).on(name(&log_file(1))).for_ever();
            begun_in_vain(&format!("{code} at {op:?}"), is_refusal, |sim| {
                sim.disk().inject(fault.clone());
            });
        }
    }
    // The file is there, and no descriptor is left for the sync of its name.
    begun_in_vain("one descriptor", true, |sim| {
        sim.disk().set_open_files_max(sim.disk().open_files() + 1);
    });
}

fn begun_in_vain(what: &str, is_refusal: bool, harm: impl Fn(&Sim)) {
    let sim = Sim::new(3);
    let mut model = sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let mut model = Model::default();
        let bytes = batch(0, &[SIZES[0]]);
        model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
        // The mark is stored, which takes a descriptor, too.
        sim.clock().sleep(Duration::from_secs(3)).await;
        harm(&sim);
        for _ in 0..3 {
            let refused = append(&log, &batch(1, &[10]), Ack::Durable);
            let _ = log.flush(Ack::Durable).await;
            let refused = refused.get().unwrap().unwrap_err();
            let poisoned = matches!(refused, AppendError::Poisoned(_));
            assert_eq!(poisoned, !is_refusal, "{what}: {refused}");
        }
        sim.disk().lift_all();
        sim.disk().set_open_files_max(usize::MAX);
        if log.fault().is_none() {
            let bytes = batch(1, &[10]);
            let appended = append_wait(&log, &bytes, Ack::Durable).await;
            assert_eq!(appended.base_offset, 1, "{what}: no offset was used");
            model.push(bytes, appended);
        }
        model
    });
    sim.disk().process_kill(3);
    sim.run(async {
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert_eq!(report.damage, [], "{what}");
        let bytes = batch(2, &[10]);
        model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
        model.check_all(&log, &mut Rng::new(3)).await;
    });
}
