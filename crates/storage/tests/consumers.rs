//! What consumers store: kept, bounded, put down to the log's end, and what it keeps from going.

mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use corelog_format::{ConsumerKind, Identifier, Name, OffsetRecord};
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::{
    Ack, ConsumerKey, From, LogConfig, OffsetError, OpenDamage, PollError, PollQuery, SharedLimits,
};

const FILE: &str = "consumer_offsets";

fn group(id: u32) -> ConsumerKey {
    ConsumerKey { kind: ConsumerKind::ConsumerGroup, id }
}

#[test]
fn what_is_stored_is_told_and_kept_and_kinds_do_not_mix() {
    let sim = Sim::new(1);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        assert_eq!(log.consumer_offset(consumer(1)).unwrap(), None);
        log.store_offset(consumer(1), 4, Ack::Durable).await.unwrap();
        log.store_offset(group(1), 7, Ack::Appended).await.unwrap();
        log.store_offset(consumer(2), 9, Ack::Appended).await.unwrap();
        log.store_offset(consumer(2), 0, Ack::Appended).await.unwrap();
        log.delete_offset(consumer(1), Ack::Appended).await.unwrap();
        let error = log.delete_offset(consumer(1), Ack::Appended).await.unwrap_err();
        assert!(matches!(error, OffsetError::NothingStored), "{error}");
        let told = |log: &Log| {
            [consumer(1), group(1), consumer(2)].map(|who| log.consumer_offset(who).unwrap())
        };
        assert_eq!(told(&log), [None, Some(7), Some(0)]);
        log.close().await.unwrap();
        let error = log.store_offset(group(1), 1, Ack::Appended).await.unwrap_err();
        assert!(matches!(error, OffsetError::Closed), "{error}");
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert_eq!(told(&log), [None, Some(7), Some(0)]);
        assert!(report.ignored.is_empty() && report.damage.is_empty(), "{report:?}");
        log.close().await.unwrap();
    });
}

/// The reference server's key of a name (iggy-behaviour, 4.2 and its vectors).
#[test]
fn a_consumers_name_is_its_hash() {
    let name = Identifier::String(Name::new("my-consumer").unwrap());
    assert_eq!(ConsumerKey::consumer(name), consumer(2_115_191_887));
    assert_eq!(ConsumerKey::consumer(Identifier::Numeric(7)), consumer(7));
    assert_ne!(ConsumerKey::consumer(Identifier::Numeric(7)), ConsumerKey::group(7));
}

#[test]
fn only_offsets_of_messages_can_be_stored() {
    let sim = Sim::new(2);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let empty = log.store_offset(consumer(1), 0, Ack::Appended).await.unwrap_err();
        assert!(matches!(empty, OffsetError::OutOfRange { offset: 0, last: None }), "{empty}");
        for tag in 0..60 {
            append_wait(&log, &batch(tag, &[60_000]), Ack::Durable).await;
        }
        assert!(log.trim(40).await.unwrap().start > 0);
        // Below the start is fine: whoever is there goes on at the first message there is.
        for (offset, fine) in [(59, true), (60, false), (u64::MAX, false), (0, true), (58, true)] {
            let stored = log.store_offset(consumer(1), offset, Ack::Appended).await;
            assert_eq!(stored.is_ok(), fine, "{offset}");
        }
        assert_eq!(log.consumer_offset(consumer(1)).unwrap(), Some(58));
        log.close().await.unwrap();
    });
}

#[test]
fn the_table_grows_up_to_its_limit() {
    let sim = Sim::new(3);
    sim.run(async {
        let limits = SharedLimits { consumers: 600, ..SharedLimits::default() };
        let (log, _) =
            open_limited(sim.platform(), small_segments(), limits.clone()).await.unwrap();
        append_wait(&log, &batch(1, &[100; 8]), Ack::Durable).await;
        for id in 0..600 {
            let ack = if id % 50 == 0 { Ack::Durable } else { Ack::Appended };
            log.store_offset(consumer(id * 7), u64::from(id) % 8, ack).await.unwrap();
        }
        let error = log.store_offset(group(0), 1, Ack::Appended).await.unwrap_err();
        assert!(matches!(error, OffsetError::TooMany { max: 600 }), "{error}");
        log.store_offset(consumer(7), 0, Ack::Appended).await.unwrap();
        // A place is free again when somebody leaves.
        log.delete_offset(consumer(0), Ack::Appended).await.unwrap();
        log.store_offset(group(0), 1, Ack::Appended).await.unwrap();
        let error = log.store_offset(consumer(0), 0, Ack::Appended).await.unwrap_err();
        assert!(matches!(error, OffsetError::TooMany { max: 600 }), "{error}");
        log.delete_offset(group(0), Ack::Appended).await.unwrap();
        log.store_offset(consumer(0), 0, Ack::Appended).await.unwrap();
        log.close().await.unwrap();
        let (log, _) = open_limited(sim.platform(), small_segments(), limits).await.unwrap();
        for id in 0..600 {
            let stored = log.consumer_offset(consumer(id * 7)).unwrap();
            assert_eq!(stored, Some(if id == 1 { 0 } else { u64::from(id) % 8 }), "{id}");
        }
        log.close().await.unwrap();
    });
    let file = sim.disk().contents(place().dir.join(FILE)).unwrap();
    assert_eq!(file.len(), 2 * 16_384);
}

/// A group's id is never used again: what comes late for one that was deleted would keep messages for
/// ever.
#[test]
fn nothing_is_stored_for_groups_that_are_gone() {
    let sim = Sim::new(11);
    sim.run(async {
        let log = log_of(&sim, 3).await;
        let all = [group(0), group(1), group(2), consumer(0)];
        for who in all {
            log.store_offset(who, 1, Ack::Appended).await.unwrap();
        }
        log.keep_groups(&Arc::from([1]), 3);
        let told = |log: &Log| all.map(|who| log.consumer_offset(who).unwrap());
        assert_eq!(told(&log), [None, Some(1), None, Some(1)]);
        let error = log.store_offset(group(2), 1, Ack::Durable).await.unwrap_err();
        assert!(matches!(error, OffsetError::GroupIsGone { id: 2 }), "{error}");
        for who in [group(1), group(3), consumer(2)] {
            log.store_offset(who, 2, Ack::Durable).await.unwrap();
        }
        // A poll of the deleted group that was on its way.
        let late = PollQuery::new(From::Offset(0), 9, 1 << 20);
        let late = PollQuery { commit: Some(group(0)), ..late };
        assert_eq!(log.poll(late).await.unwrap().messages, 3);
        assert_eq!(told(&log), [None, Some(2), None, Some(1)]);
        log.close().await.unwrap();
        let (log, _) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert_eq!(told(&log), [None, Some(2), None, Some(1)]);
    });
}

/// What groups had stored that are gone goes durably within a second, though nobody stores anything:
/// after a crash it would keep segments from being deleted.
#[test]
fn what_groups_had_stored_that_are_gone_does_not_come_back() {
    let sim = Sim::new(14);
    sim.run(async {
        let log = log_of(&sim, 3).await;
        log.flush(Ack::Durable).await.unwrap();
        for who in [group(0), group(1)] {
            log.store_offset(who, 1, Ack::Durable).await.unwrap();
        }
        log.keep_groups(&Arc::from([1]), 2);
        sim.clock().sleep(Duration::from_millis(1_100)).await;
    });
    sim.disk().power_cut(1);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let told = [group(0), group(1)].map(|who| log.consumer_offset(who).unwrap());
        assert_eq!(told, [None, Some(1)]);
        log.close().await.unwrap();
    });
}

/// A store is answered when it is in force, or when it is durable; with `enforce_fsync` always then,
/// whatever was asked for.
#[test]
fn a_stored_offset_is_as_durable_as_was_asked_for() {
    for (enforce_fsync, ack) in [
        (false, Ack::Appended),
        (false, Ack::Written),
        (false, Ack::Durable),
        (true, Ack::Appended),
        (true, Ack::Durable),
    ] {
        let sim = Sim::new(15);
        let config = LogConfig { enforce_fsync, ..small_segments() };
        sim.run(async {
            let log = open(sim.platform(), config.clone()).await;
            append_wait(&log, &batch(1, &[10; 3]), Ack::Durable).await;
            log.store_offset(consumer(1), 2, ack).await.unwrap();
        });
        sim.disk().power_cut(1);
        sim.run(async {
            let log = open(sim.platform(), config).await;
            let stored = log.consumer_offset(consumer(1)).unwrap();
            let waits = enforce_fsync || ack != Ack::Appended;
            assert_eq!(stored, waits.then_some(2), "{enforce_fsync}, {ack:?}");
            log.close().await.unwrap();
        });
    }
}

/// One store answers all who came before it, and nobody who waits for nothing costs a store.
#[test]
fn stores_are_grouped() {
    let sim = Sim::new(4);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        let writes =
            sim.disk().inject(Fault::delay(Duration::ZERO).of(IoOp::Write).on(FILE).for_ever());
        for offset in 0..9 {
            log.store_offset(consumer(1), offset, Ack::Appended).await.unwrap();
        }
        assert_eq!(sim.disk().hits(writes), 0);
        let waiting: Vec<_> =
            (0..9).map(|id| log.store_offset(consumer(id), 3, Ack::Durable)).collect();
        for stored in waiting {
            stored.await.unwrap();
        }
        assert!(sim.disk().hits(writes) <= 2, "{}", sim.disk().hits(writes));
        sim.clock().sleep(Duration::from_secs(2)).await;
        let before = sim.disk().hits(writes);
        for offset in 0..9 {
            log.store_offset(consumer(1), offset, Ack::Appended).await.unwrap();
            sim.clock().sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(sim.disk().hits(writes), before, "what nobody waits for gathers for a second");
        sim.clock().sleep(Duration::from_secs(1)).await;
        assert_eq!(sim.disk().hits(writes), before + 1);
        let before = sim.disk().hits(writes);
        sim.clock().sleep(Duration::from_secs(60)).await;
        assert_eq!(sim.disk().hits(writes), before, "nothing new, no store");
        log.close().await.unwrap();
    });
}

/// A file with more room takes the place of the old one: at once under its name, and durably.
#[test]
fn a_table_that_grows_is_durable_under_its_name() {
    let sim = Sim::new(13);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        log.flush(Ack::Durable).await.unwrap();
        let mut grown = 0;
        for id in 0..900 {
            let before = sim.disk().count(IoOp::Rename);
            log.store_offset(consumer(id), u64::from(id % 10), Ack::Durable).await.unwrap();
            if sim.disk().count(IoOp::Rename) == before {
                continue;
            }
            grown += 1;
            for cut in 0..10 {
                let other = Sim::from_image(cut, &sim.disk().image_of_power_cut(cut));
                other.run(async {
                    let log = open(other.platform(), small_segments()).await;
                    for id in 0..=id {
                        let stored = log.consumer_offset(consumer(id)).unwrap();
                        assert_eq!(stored, Some(u64::from(id % 10)), "{id}, grown {grown} times");
                    }
                });
            }
        }
        assert!(grown >= 3, "{grown}");
        log.close().await.unwrap();
    });
}

/// What was set, by whom, and up to where it is promised.
#[derive(Default, Clone)]
struct Told {
    /// All values in order; `None` is a deletion.
    set: BTreeMap<u32, Vec<Option<u64>>>,
    /// How many of them were answered as durable.
    durable: BTreeMap<u32, usize>,
}

/// A life of random stores and appends, of as many consumers as make the file grow.
async fn live(sim: &Sim, told: &RefCell<Told>, mut rng: Rng) {
    let log = open(sim.platform(), LogConfig::default()).await;
    for tag in 0..200 {
        let ack = [Ack::Appended, Ack::Written, Ack::Durable][rng.index(3)];
        append_wait(&log, &batch(tag, &[50]), ack).await;
        let id = if rng.below(2) == 0 { rng.below(5) as u32 } else { tag as u32 * 3 + 100 };
        let is_set = told.borrow().set.get(&id).is_some_and(|set| set.last() != Some(&None));
        let value = if is_set && rng.below(8) == 0 { None } else { Some(rng.below(tag + 1)) };
        let number = {
            let mut told = told.borrow_mut();
            let set = told.set.entry(id).or_default();
            set.push(value);
            set.len()
        };
        let ack = if rng.below(3) == 0 { Ack::Durable } else { Ack::Appended };
        match value {
            Some(offset) => log.store_offset(consumer(id), offset, ack).await.unwrap(),
            None => log.delete_offset(consumer(id), ack).await.unwrap(),
        }
        if ack == Ack::Durable {
            told.borrow_mut().durable.insert(id, number);
        }
    }
    log.close().await.unwrap();
    let all: Vec<_> = told.borrow().set.iter().map(|(id, set)| (*id, set.len())).collect();
    told.borrow_mut().durable.extend(all);
}

/// The life ends anywhere, by a kill or a power cut: what was answered as durable is there, or
/// something that was set later; never more than the log holds.
#[test]
fn what_was_durable_survives_any_crash() {
    let mut halted = 0;
    for seed in 0..150 {
        let sim = Sim::new(seed);
        let mut rng = Rng::new(seed);
        let told = RefCell::new(Told::default());
        let (steps, is_cut) = (rng.between(50, 1_500), rng.below(2) == 0);
        let ended = sim.run_until_halt(steps, live(&sim, &told, Rng::new(seed + 1)));
        halted += u32::from(ended.is_none());
        match is_cut {
            true => sim.disk().power_cut(seed),
            false => sim.disk().process_kill(seed),
        }
        let told = told.into_inner();
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert!(report.damage.is_empty(), "seed {seed}: {report:?}");
            let last = log.readable_end().checked_sub(1);
            for (id, set) in &told.set {
                let from = told.durable.get(id).map_or(0, |count| count - 1);
                let stored = log.consumer_offset(consumer(*id)).unwrap();
                let mut allowed: Vec<_> = set[from..].to_vec();
                if !told.durable.contains_key(id) {
                    allowed.push(None);
                }
                let put_down =
                    |value: &Option<u64>| value.and_then(|v| last.map(|last| v.min(last)));
                let fits = allowed.iter().any(|value| put_down(value) == stored);
                assert!(
                    fits,
                    "seed {seed}, consumer {id}: {stored:?}, allowed {allowed:?}, {last:?}"
                );
            }
            log.close().await.unwrap();
        });
    }
    assert!(halted > 50, "{halted} of 150 lives were cut off");
}

/// A power cut takes the end of the log that an offset was stored for. What is appended then must
/// not count as consumed, not even after one more crash.
#[test]
fn an_offset_above_the_end_is_put_down_before_anything_is_appended() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        sim.run(async {
            let log = log_of(&sim, 3).await;
            log.flush(Ack::Durable).await.unwrap();
            for tag in 3..40 {
                append_wait(&log, &batch(tag, &[5_000]), Ack::Appended).await;
            }
            log.store_offset(group(1), 39, Ack::Durable).await.unwrap();
        });
        sim.disk().power_cut(seed);
        let last = sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            let last = log.readable_end() - 1;
            assert_eq!(log.consumer_offset(group(1)).unwrap(), Some(last.min(39)));
            for tag in 40..80 {
                append_wait(&log, &batch(tag, &[10]), Ack::Written).await;
            }
            last
        });
        sim.disk().process_kill(1);
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            assert_eq!(log.consumer_offset(group(1)).unwrap(), Some(last.min(39)), "seed {seed}");
            log.close().await.unwrap();
        });
    }
}

#[test]
fn where_an_offset_cannot_be_put_down_nothing_is_appended() {
    let sim = Sim::new(5);
    sim.run(async {
        let log = log_of(&sim, 30).await;
        log.store_offset(group(1), 29, Ack::Durable).await.unwrap();
        log.close().await.unwrap();
        sim.disk().truncate(log_file(0), 0).unwrap();
        sim.disk().delete(place().dir.join("manifest")).unwrap();
        let fault = sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write).on(FILE).for_ever());
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert!(report.read_only, "{report:?}");
        assert_eq!(log.readable_end(), 0, "the log is gone");
        let refused = append(&log, &batch(1, &[10]), Ack::Appended).get().unwrap();
        assert!(refused.is_err(), "{refused:?}");
        sim.disk().lift(fault);
        let (log, _) = log.reopen().await.unwrap();
        append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
        assert_eq!(log.consumer_offset(group(1)).unwrap(), None);
        log.close().await.unwrap();
    });
}

#[test]
fn a_store_that_fails_is_told_and_tried_again() {
    let sim = Sim::new(6);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        log.store_offset(consumer(1), 1, Ack::Durable).await.unwrap();
        let fault = sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write).on(FILE).for_ever());
        let error = log.store_offset(consumer(1), 5, Ack::Durable).await.unwrap_err();
        let OffsetError::Io(io) = &error else { panic!("{error}") };
        assert_eq!(io.source.raw_os_error(), Some(errno::EIO));
        assert!(io.path.ends_with(FILE), "{error}");
        assert_eq!(log.consumer_offset(consumer(1)).unwrap(), Some(5), "it counts all the same");
        append_wait(&log, &batch(99, &[10]), Ack::Durable).await;
        sim.disk().lift(fault);
        sim.clock().sleep(Duration::from_secs(3)).await;
    });
    sim.disk().process_kill(1);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        assert_eq!(log.consumer_offset(consumer(1)).unwrap(), Some(5));
        log.close().await.unwrap();
    });
}

#[test]
fn offsets_that_cannot_be_read_are_not_taken_for_none() {
    let sim = Sim::new(7);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        log.store_offset(consumer(1), 4, Ack::Durable).await.unwrap();
        log.close().await.unwrap();
        let fault =
            sim.disk().inject(Fault::fail(errno::EMFILE).of(IoOp::Open).on(FILE).for_ever());
        let log = open(sim.platform(), small_segments()).await;
        let error = log.consumer_offset(consumer(1)).unwrap_err();
        assert!(matches!(error, OffsetError::Unreadable(_)), "{error}");
        let error = log.store_offset(consumer(1), 1, Ack::Durable).await.unwrap_err();
        assert!(matches!(error, OffsetError::Unreadable(_)), "{error}");
        let next = log.poll(query(From::Next(consumer(1)), 1, 1)).await.map(drop).unwrap_err();
        assert!(matches!(next, PollError::Offsets(_)), "{next}");
        assert_eq!(poll(&log, From::First, 1, 1).await.unwrap().messages, 1);
        sim.disk().lift(fault);
        log.close().await.unwrap();
        let log = open(sim.platform(), small_segments()).await;
        assert_eq!(log.consumer_offset(consumer(1)).unwrap(), Some(4));
        log.close().await.unwrap();
    });
}

#[test]
fn one_damaged_slot_is_the_older_offset_and_two_are_reported() {
    let sim = Sim::new(8);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        log.store_offset(consumer(1), 1, Ack::Durable).await.unwrap();
        log.store_offset(consumer(1), 2, Ack::Durable).await.unwrap();
        log.close().await.unwrap();
        // The first store made the file and took slot A, the second one B.
        sim.disk().flip_bit(place().dir.join(FILE), 4096 + 60, 0).unwrap();
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert_eq!(log.consumer_offset(consumer(1)).unwrap(), Some(1));
        assert!(report.damage.is_empty());
        log.close().await.unwrap();
        sim.disk().flip_bit(place().dir.join(FILE), 60, 0).unwrap();
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert_eq!(log.consumer_offset(consumer(1)).unwrap(), None);
        assert_eq!(report.damage, [OpenDamage::ConsumerOffsets]);
        log.store_offset(consumer(1), 3, Ack::Durable).await.unwrap();
        log.close().await.unwrap();
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert_eq!((log.consumer_offset(consumer(1)).unwrap(), report.damage.len()), (Some(3), 0));
        log.close().await.unwrap();
    });
}

#[test]
fn the_reference_servers_offsets_are_taken_over() {
    let sim = Sim::new(9);
    sim.run(async {
        log_of(&sim, 50).await.close().await.unwrap();
        let dir = place().dir.join("offsets");
        let put = |path: &str, bytes: &[u8]| sim.disk().put(dir.join(path), bytes).unwrap();
        put("consumers/7", &OffsetRecord { offset: 41 }.encode());
        put("consumers/8", &900_u64.to_le_bytes());
        put("consumers/9", &[1; 16]);
        put("consumers/notes", b"hello");
        put("groups/7", &OffsetRecord { offset: 3 }.encode());
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert!(report.ignored.is_empty(), "{report:?}");
        let told = |log: &Log| {
            [consumer(7), consumer(8), consumer(9), group(7)]
                .map(|who| log.consumer_offset(who).unwrap())
        };
        let wanted = [Some(41), Some(49), None, Some(3)];
        assert_eq!(told(&log), wanted);
        log.delete_offset(group(7), Ack::Durable).await.unwrap();
        log.close().await.unwrap();
        // Ours count from now on.
        let log = open(sim.platform(), small_segments()).await;
        assert_eq!(told(&log), [wanted[0], wanted[1], None, None]);
        log.close().await.unwrap();
    });
}

#[test]
fn next_goes_on_behind_what_is_stored() {
    let sim = Sim::new(10);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        let ask = |from, messages| PollQuery {
            commit: Some(consumer(1)),
            ..PollQuery::new(from, messages, 1 << 20)
        };
        let mut served = Vec::new();
        loop {
            let polled = log.poll(ask(From::Next(consumer(1)), 3)).await.unwrap();
            if polled.messages == 0 {
                break;
            }
            served.extend(polled.first_offset.unwrap()..polled.next_offset);
            assert!(served.len() <= 10, "{served:?}");
            assert_eq!(log.consumer_offset(consumer(1)).unwrap(), Some(polled.next_offset - 1));
        }
        assert_eq!(served, (0..10).collect::<Vec<_>>());
        // A poll of what was before does not take it back; a store does.
        log.poll(ask(From::First, 2)).await.unwrap();
        assert_eq!(log.consumer_offset(consumer(1)).unwrap(), Some(9));
        log.store_offset(consumer(1), 4, Ack::Appended).await.unwrap();
        let polled = log.poll(query(From::Next(consumer(1)), 1, 1)).await.unwrap();
        assert_eq!(polled.first_offset, Some(5));
        assert_eq!(log.consumer_offset(consumer(1)).unwrap(), Some(4), "this poll stores nothing");
        // Another one begins at the start.
        let polled = log.poll(query(From::Next(group(1)), 1, 1)).await.unwrap();
        assert_eq!(polled.first_offset, Some(0));
        log.close().await.unwrap();
    });
}

#[test]
fn a_waiting_poll_ends_with_the_first_message_or_with_its_time() {
    let sim = Sim::new(11);
    sim.run(async {
        let log = log_of(&sim, 2).await;
        let ask = |max_wait| PollQuery { max_wait, ..PollQuery::new(From::Offset(2), 9, 1 << 20) };
        let before = sim.clock().now_us();
        let polled = log.poll(ask(Duration::from_millis(300))).await.unwrap();
        assert_eq!(polled.messages, 0);
        assert!(sim.clock().now_us() - before >= 300_000);

        let writer = log.clone();
        let clock = sim.clock().clone();
        sim.platform().spawn().spawn(async move {
            clock.sleep(Duration::from_secs(5)).await;
            append(&writer, &batch(7, &[10]), Ack::Appended);
        });
        let before = sim.clock().now_us();
        let polled = log.poll(ask(Duration::from_secs(3_600))).await.unwrap();
        assert_eq!((polled.messages, polled.first_offset), (1, Some(2)));
        assert!(sim.clock().now_us() - before < 6_000_000);

        // A close does not wait for it.
        let reader = log.clone();
        let answer = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&answer);
        let query = PollQuery { from: From::Offset(3), ..ask(Duration::from_secs(3_600)) };
        sim.platform().spawn().spawn(async move {
            *slot.borrow_mut() = Some(reader.poll(query).await.map(|polled| polled.messages));
        });
        sim.clock().sleep(Duration::from_millis(1)).await;
        let before = sim.clock().now_us();
        log.close().await.unwrap();
        sim.clock().sleep(Duration::from_millis(1)).await;
        assert!(sim.clock().now_us() - before < 60_000_000);
        let answer = answer.borrow_mut().take().expect("it was answered");
        assert!(matches!(answer, Ok(0) | Err(PollError::Closed)), "{answer:?}");
    });
}
