//! Each promise, broken once: an oracle that never objects proves nothing.

use corelog_io::sim::Rng;
use corelog_storage::{Ack, Appended, ConsumerKey, From};

use super::{Asked, Bounds, Broken, Crash, Got, Oracle, Value};
use crate::batches::{ProducerBatch, Sizes};

const SIZES: Sizes = Sizes { messages: 1, bytes: 100, giant_in: 1_000_000 };

/// An oracle to which three batches of one message were appended, for `acks`, not answered yet.
fn called(acks: [Ack; 3]) -> Oracle {
    let mut oracle = Oracle::new(7, false);
    for (number, ack) in acks.into_iter().enumerate() {
        let batch = ProducerBatch::draw(number as u64, SIZES, &mut Rng::new(number as u64));
        assert_eq!(oracle.called(batch, ack), number);
    }
    oracle
}

fn told(base_offset: u64, base_timestamp: u64) -> Appended {
    Appended { base_offset, base_timestamp, message_count: 1 }
}

/// Batch `number` as a poll serves it at `base`.
fn stored(number: u64, base: u64, time: u64) -> Got {
    let batch = ProducerBatch::draw(number, SIZES, &mut Rng::new(number));
    let mut admitted = corelog_format::admit(&batch.bytes).unwrap();
    let mut bytes = admitted.stamp(7, base, time).to_vec();
    bytes.extend_from_slice(&batch.bytes[256..]);
    Got { bytes, messages: 1, first: Some(base), next: base + 1 }
}

fn bounds(end: u64) -> Bounds {
    Bounds { start: 0, must: end, may: end }
}

fn asked(from: From) -> Asked {
    Asked { from, max_messages: 10, max_bytes: 1_000, next: None, before: bounds(3) }
}

/// Three batches at 0, 1, 2 with times 10, 11, 12.
fn answered(acks: [Ack; 3]) -> Oracle {
    let mut oracle = called(acks);
    for call in 0..3 {
        oracle.answered(call, told(call as u64, 10 + call as u64)).unwrap();
    }
    oracle
}

#[test]
fn answers_that_contradict_each_other() {
    let broken = |second: Appended| {
        let mut oracle = called([Ack::Appended; 3]);
        oracle.answered(0, told(5, 10)).unwrap();
        oracle.answered(1, second)
    };
    broken(told(6, 11)).unwrap();
    broken(told(9, 11)).unwrap();
    broken(told(5, 11)).unwrap_err();
    broken(told(4, 11)).unwrap_err();
    broken(told(6, 10)).unwrap_err();
    broken(Appended { message_count: 2, ..told(6, 11) }).unwrap_err();
}

#[test]
fn what_survives_which_crash() {
    use Ack::{Appended, Durable, Written};
    // The lowest end that an opening may show.
    let least = |acks, crash| {
        let owed = |end: u64| {
            let mut oracle = answered(acks);
            oracle.crashed(crash);
            oracle.check_end(end)
        };
        (0..=3).find(|end| owed(*end).is_ok()).unwrap()
    };
    assert_eq!(least([Appended; 3], Crash::Kill), 0);
    assert_eq!(least([Durable, Written, Appended], Crash::Kill), 2);
    assert_eq!(least([Durable, Written, Appended], Crash::PowerCut), 1);
    assert_eq!(least([Appended, Appended, Durable], Crash::PowerCut), 3);
    let mut oracle = answered([Appended; 3]);
    oracle.flushed(Durable, 2);
    oracle.crashed(Crash::PowerCut);
    oracle.check_end(1).unwrap_err();
    oracle.check_end(2).unwrap();
}

#[test]
fn nothing_comes_back_that_was_refused() {
    let mut oracle = called([Ack::Appended; 3]);
    oracle.refused(0).unwrap();
    let poll = asked(From::Offset(0));
    oracle.served(&poll, &stored(0, 0, 10), bounds(3)).unwrap_err();
    oracle.served(&poll, &stored(1, 0, 10), bounds(3)).unwrap();
    oracle.refused(1).unwrap_err();
}

#[test]
fn polls_begin_and_end_where_they_must() {
    let served = |from, number: u64, may| {
        let mut oracle = answered([Ack::Written; 3]);
        oracle.served(&asked(from), &stored(number, number, 10 + number), bounds(may))
    };
    served(From::Offset(1), 1, 3).unwrap();
    served(From::Offset(1), 2, 3).unwrap_err();
    served(From::Offset(2), 2, 2).unwrap_err();
    served(From::First, 0, 3).unwrap();
    served(From::First, 1, 3).unwrap_err();
    served(From::Last(2), 1, 3).unwrap();
    served(From::Last(2), 2, 3).unwrap_err();
    served(From::Timestamp(11), 1, 3).unwrap();
    served(From::Timestamp(11), 2, 3).unwrap_err();
    served(From::Timestamp(11), 0, 3).unwrap_err();
    let nothing = Got { bytes: Vec::new(), messages: 0, first: None, next: 2 };
    let mut oracle = answered([Ack::Written; 3]);
    oracle.served(&asked(From::Offset(2)), &nothing, bounds(3)).unwrap_err();
    oracle.served(&asked(From::Offset(3)), &nothing, bounds(3)).unwrap();
}

#[test]
fn no_byte_may_differ() {
    let good = stored(1, 1, 11);
    for at in (0..good.bytes.len()).step_by(7) {
        let mut oracle = answered([Ack::Written; 3]);
        let mut bad = good.clone();
        bad.bytes[at] ^= 1;
        oracle.served(&asked(From::Offset(1)), &bad, bounds(3)).unwrap_err();
    }
    // Sound, but another time than it was answered with.
    let mut oracle = answered([Ack::Written; 3]);
    oracle.served(&asked(From::Offset(1)), &stored(1, 1, 15), bounds(3)).unwrap_err();
}

#[test]
fn damage_excuses_what_lies_at_it_and_no_more() {
    let mut oracle = answered([Ack::Durable; 3]);
    oracle.segments_are([0, 2].into());
    oracle.may_skip(1..2).unwrap_err();
    let second = oracle.index_of(0)[1].2;
    oracle.harmed(0, second + 300..second + 301);
    oracle.may_skip(1..2).unwrap();
    oracle.may_skip(0..1).unwrap_err();
    oracle.may_skip(2..3).unwrap_err();
    // Below the mark nothing may be cut, above it all from the damage on.
    let mark = |position| corelog_format::Mark { position, ..Default::default() };
    oracle.opens_at(mark(second + 1_000));
    oracle.check_end(1).unwrap_err();
    oracle.opens_at(mark(second));
    oracle.check_end(0).unwrap_err();
    oracle.check_end(1).unwrap();
    // One that comes while it is opened takes nothing back of what is there already.
    oracle.rots_while_opening(mark(second + 1_000));
    oracle.check_end(0).unwrap_err();
    oracle.check_end(1).unwrap();
    oracle.harmed(0, 0..1);
    oracle.rots_while_opening(mark(second));
    oracle.check_end(0).unwrap_err();
    oracle.rots_while_opening(mark(0));
    oracle.check_end(0).unwrap();
}

fn who(id: u32) -> ConsumerKey {
    ConsumerKey { kind: corelog_format::ConsumerKind::Consumer, id }
}

#[test]
fn the_start_moves_only_where_it_may() {
    let moved = |ask: fn(&mut Oracle), start: u64, latest_us: u64| {
        let mut oracle = answered([Ack::Durable; 3]);
        oracle.start_rests();
        ask(&mut oracle);
        oracle.check_start(start, latest_us)
    };
    moved(|_| {}, 0, 99).unwrap();
    moved(|_| {}, 1, 99).unwrap_err();
    moved(|oracle| oracle.trim_asked(1), 1, 99).unwrap();
    moved(|oracle| oracle.trim_asked(1), 2, 99).unwrap_err();
    moved(Oracle::deletion_asked, 2, 99).unwrap();
    // By age: the batches have the times 10, 11 and 12.
    let old = |oracle: &mut Oracle| {
        let expiry = Some(std::time::Duration::from_micros(5));
        oracle.rule_is(corelog_storage::Retention { expiry, sealed_bytes: None });
    };
    moved(old, 2, 16).unwrap();
    moved(old, 2, 15).unwrap_err();
    // By size: no batch has 2,000 bytes.
    let much = |oracle: &mut Oracle| {
        let sealed_bytes = Some(6_000);
        oracle.rule_is(corelog_storage::Retention { expiry: None, sealed_bytes });
    };
    moved(much, 1, 99).unwrap_err();
    // Never back.
    let mut oracle = answered([Ack::Durable; 3]);
    oracle.trim_asked(2);
    oracle.check_start(2, 99).unwrap();
    oracle.check_start(1, 99).unwrap_err();
}

#[test]
fn what_somebody_has_not_read_stays() {
    let moved = |stored: u64, start: u64| {
        let mut oracle = answered([Ack::Durable; 3]);
        let attempt = oracle.offset_called(who(1), Value::At(stored), 1);
        oracle.offset_stored(who(1), attempt, false);
        oracle.start_rests();
        oracle.deletion_asked();
        oracle.check_start(start, 99)
    };
    moved(0, 1).unwrap();
    moved(0, 2).unwrap_err();
    moved(1, 2).unwrap();
    // What was stored before the start was about to move does not matter.
    let mut oracle = answered([Ack::Durable; 3]);
    for stored in [2, 0] {
        let attempt = oracle.offset_called(who(1), Value::At(stored), 1);
        oracle.offset_stored(who(1), attempt, false);
    }
    oracle.start_rests();
    oracle.deletion_asked();
    oracle.check_start(2, 99).unwrap_err();
}

#[test]
fn a_log_begins_where_a_batch_does() {
    let begins = |offsets: &[u64], start: u64| {
        let mut oracle = called([Ack::Written; 3]);
        for (number, offset) in offsets.iter().enumerate() {
            // The last one's answer is told for the last call: those between are not answered.
            let call = if number + 1 == offsets.len() { 2 } else { number };
            oracle.answered(call, told(*offset, 10 + *offset)).unwrap();
        }
        oracle.deletion_asked();
        oracle.check_start(start, 99)
    };
    begins(&[0, 1, 2], 1).unwrap();
    // A batch that nobody was told of, and nobody has read, stands at 1.
    begins(&[0, 2], 1).unwrap();
    begins(&[0, 2], 2).unwrap();
    // All are known, and none stands there.
    begins(&[0, 2, 3], 1).unwrap_err();
}

fn tell(oracle: &mut Oracle, who: ConsumerKey, stored: Option<u64>) -> Result<bool, Broken> {
    oracle.offset_told(who, stored, oracle.loosened())
}

#[test]
fn stored_offsets_are_what_they_may_be() {
    // Stored as durable, then another one in memory, then a crash at an end of the log.
    let after = |end: u64, told: Option<u64>| {
        let mut oracle = answered([Ack::Durable; 3]);
        for (stored, durable) in [(0, false), (1, true), (2, false)] {
            let attempt = oracle.offset_called(who(1), Value::At(stored), 1);
            oracle.offset_stored(who(1), attempt, durable);
        }
        oracle.consumers.opened(end, false, 1);
        tell(&mut oracle, who(1), told).map(|_| ())
    };
    after(3, Some(2)).unwrap();
    after(3, Some(1)).unwrap();
    after(3, Some(0)).unwrap_err();
    after(3, None).unwrap_err();
    after(2, Some(2)).unwrap_err();
    after(1, Some(0)).unwrap();
    after(0, None).unwrap();
    after(0, Some(0)).unwrap_err();
    // In memory the last one counts, and a refused one does not.
    let mut oracle = answered([Ack::Durable; 3]);
    let attempt = oracle.offset_called(who(1), Value::At(1), 1);
    oracle.offset_stored(who(1), attempt, false);
    let attempt = oracle.offset_called(who(1), Value::At(2), 1);
    oracle.offset_refused(who(1), attempt);
    assert_eq!(oracle.next_of(who(1)), Some(Some(1)));
    tell(&mut oracle, who(1), Some(2)).unwrap_err();
    tell(&mut oracle, who(1), Some(1)).unwrap();
    tell(&mut oracle, who(2), None).unwrap();
    // A poll commits, and never goes back.
    let attempt = oracle.offset_called(who(1), Value::Anything, 1);
    oracle.auto_stored(who(1), attempt, 0, false);
    tell(&mut oracle, who(1), Some(0)).unwrap_err();
    tell(&mut oracle, who(1), Some(1)).unwrap();
}

/// What a read that failed has hidden is there again at a later opening, closed in order or not, unless
/// something was stored over it.
#[test]
fn an_opening_that_could_not_read_settles_nothing() {
    let later = |store: bool, lost: bool| {
        let mut oracle = answered([Ack::Durable; 3]);
        let attempt = oracle.offset_called(who(1), Value::At(1), 1);
        oracle.offset_stored(who(1), attempt, true);
        oracle.consumers.opened(3, lost, 1);
        if lost {
            tell(&mut oracle, who(1), None)?;
        }
        if store {
            let attempt = oracle.offset_called(who(1), Value::At(2), 2);
            oracle.offset_stored(who(1), attempt, true);
        }
        oracle.consumers.closed();
        oracle.consumers.opened(3, false, 3);
        tell(&mut oracle, who(1), Some(1))
    };
    later(false, true).unwrap();
    later(false, false).unwrap();
    later(true, true).unwrap_err();
    later(true, false).unwrap_err();
}

#[test]
fn an_answer_is_late_where_the_group_goes_meanwhile() {
    let mut oracle = answered([Ack::Durable; 3]);
    let attempt = oracle.offset_called(who(1), Value::At(1), 1);
    oracle.offset_stored(who(1), attempt, true);
    let asked = oracle.loosened();
    oracle.offset_loose(who(1), true);
    oracle.offset_loose(who(1), false);
    oracle.offset_told(who(1), Some(1), asked).unwrap();
    assert!(oracle.may_have_nothing(who(1)));
    // Asked behind it, the answer holds.
    tell(&mut oracle, who(1), Some(1)).unwrap();
    assert!(!oracle.may_have_nothing(who(1)));
    tell(&mut oracle, who(1), None).unwrap_err();
}

#[test]
fn a_torn_tail_is_none_below_what_was_promised() {
    let mut oracle = called([Ack::Written; 3]);
    for number in 0..2 {
        oracle.answered(number, told(number as u64, 10 + number as u64)).unwrap();
    }
    let len = |number: u64| stored(number, number, 10).bytes.len() as u64;
    assert!(!oracle.may_be_torn(0, 0) && !oracle.may_be_torn(0, len(0)));
    assert!(oracle.may_be_torn(0, len(0) + len(1)));
    // Nor is a hole in the log what was trimmed, unless that was asked for.
    assert!(!oracle.may_be_trimmed(0));
    oracle.trim_asked(1);
    assert!(oracle.may_be_trimmed(0) && !oracle.may_be_trimmed(1));
}

#[test]
fn a_new_life_of_the_id_has_nothing_of_the_old_one() {
    let mut oracle = answered([Ack::Durable; 3]);
    let attempt = oracle.offset_called(who(1), Value::At(1), 1);
    oracle.offset_stored(who(1), attempt, true);
    oracle.life_is(2);
    assert_eq!((oracle.known_end(), oracle.next_of(who(1))), (0, Some(None)));
    // What was answered late is of no interest, what is served is.
    oracle.answered(1, told(1, 11)).unwrap();
    let poll = Asked { before: bounds(1), ..asked(From::First) };
    oracle.served(&poll, &stored(0, 0, 10), bounds(1)).unwrap_err();
}

/// What a killed process has stored last may fall back until the opening behind it has made it
/// durable.
#[test]
fn what_an_opening_finds_is_durable_within_a_second() {
    let later = |aged_us: Option<u64>, closed: bool, told: u64| {
        let mut oracle = answered([Ack::Durable; 3]);
        for (offset, durable) in [(0, true), (1, false)] {
            let attempt = oracle.offset_called(who(1), Value::At(offset), 1);
            oracle.offset_stored(who(1), attempt, durable);
        }
        oracle.consumers.crashed();
        oracle.consumers.opened(3, false, 5);
        tell(&mut oracle, who(1), Some(1))?;
        aged_us.into_iter().for_each(|now_us| oracle.offsets_aged(now_us));
        if closed {
            oracle.consumers.closed();
        }
        oracle.consumers.crashed();
        oracle.consumers.opened(3, false, 9_000_000);
        tell(&mut oracle, who(1), Some(told))
    };
    later(None, false, 0).unwrap();
    later(Some(1_000_000), false, 0).unwrap();
    later(Some(3_000_000), false, 0).unwrap_err();
    later(None, true, 0).unwrap_err();
    for aged_us in [None, Some(3_000_000)] {
        later(aged_us, true, 1).unwrap();
    }
}
