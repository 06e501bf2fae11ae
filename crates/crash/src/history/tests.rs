//! Histories that lie, each in one way, and the judge finds each. Beside every lie stands the truth
//! that it departs from, which is accepted.

use corelog::Appended;

use super::*;
use crate::content::{BatchKey, Content};

const PLAIN: PartitionId = PartitionId::new(0, 0, 0);
const FSYNC: PartitionId = PartitionId::new(0, 1, 0);
const CONTENT: fn() -> Content = || Content::new(5);

/// A log as an engine would keep it, and the history that is told about it.
#[derive(Clone)]
struct World {
    history: History,
    id: PartitionId,
    /// The log, batch by batch.
    stored: Vec<Vec<u8>>,
    next: u64,
    time: u64,
}

/// The `nth` batch of producer 0.
fn key(nth: u32) -> BatchKey {
    BatchKey::new(0, 0, nth)
}

fn stamped(sent: &[u8], id: PartitionId, base: u64, time: u64) -> Vec<u8> {
    let mut admitted = corelog_format::admit(sent).expect("our batches are admitted");
    let header = admitted.stamp(u64::from(id.partition), base, time);
    [&header, &sent[header.len()..]].concat()
}

fn end_of(stored: &[u8]) -> u64 {
    let header = corelog_format::BatchHeader::parse(stored).expect("it was stamped");
    header.end_offset().expect("it is small")
}

impl World {
    fn new(id: PartitionId) -> World {
        let mut history = History::new(CONTENT(), "again");
        history.add_partition(PLAIN, false);
        history.add_partition(FSYNC, true);
        World { history, id, stored: Vec::new(), next: 0, time: 100 }
    }

    fn offer(&mut self, key: BatchKey, level: Ack) {
        let partition = self.id;
        self.history.note(&Event::Offered { partition, key, level }).expect("it is new");
    }

    /// Stores the batch at the end; what would be answered.
    fn store(&mut self, key: BatchKey) -> Appended {
        let sent = CONTENT().batch(self.id, key);
        let (base_offset, base_timestamp) = (self.next, self.time);
        let stored = stamped(&sent, self.id, base_offset, base_timestamp);
        (self.next, self.time) = (end_of(&stored), self.time + 1);
        self.stored.push(stored);
        let message_count = (self.next - base_offset) as u32;
        Appended { base_offset, base_timestamp, message_count }
    }

    fn answer(&mut self, key: BatchKey, appended: Appended) -> Result<(), Broken> {
        let (partition, level) = (self.id, Ack::Appended);
        self.history.note(&Event::Acked { partition, key, level, appended })
    }

    /// Offers, stores and answers producer 0's batches.
    fn appended(&mut self, nths: std::ops::Range<u32>, level: Ack) {
        for nth in nths {
            self.offer(key(nth), level);
            let appended = self.store(key(nth));
            self.answer(key(nth), appended).expect("it is true");
        }
    }

    /// The last `count` batches are gone.
    fn lose(&mut self, count: usize) {
        for lost in self.stored.split_off(self.stored.len() - count).iter().rev() {
            let header = corelog_format::BatchHeader::parse(lost).expect("it was stamped");
            self.next = header.base_offset;
        }
    }

    fn read(&mut self) -> Result<u64, Broken> {
        let mut reading = self.history.reading(self.id, 0)?;
        for stored in &self.stored {
            reading.batch(stored)?;
        }
        reading.finish(self.next)
    }

    fn after(&mut self, crash: Crash) -> Result<u64, Broken> {
        self.history.crashed(crash);
        self.read()
    }

    /// The reading fails, at this offset, and says these words.
    #[track_caller]
    fn found(result: Result<u64, Broken>, offset: u64, words: &str) {
        let broken = result.expect_err("it is a lie");
        assert_eq!(broken.offset, Some(offset), "{broken}");
        assert!(broken.to_string().contains(words), "{broken}");
    }
}

#[test]
fn a_kill_may_take_a_suffix_that_was_only_appended() {
    for lost in 0..=3 {
        let mut world = World::new(PLAIN);
        world.appended(0..2, Ack::Written);
        world.appended(2..4, Ack::Appended);
        // Offered, stored, and the answer was cut off.
        world.offer(key(4), Ack::Durable);
        world.store(key(4));
        // Offered only.
        world.offer(key(5), Ack::Durable);
        world.lose(lost);
        assert_eq!(world.after(Crash::Kill), Ok(5 - lost as u64));
        assert_eq!(world.read(), Ok(5 - lost as u64), "twice");
    }
}

#[test]
fn what_was_written_is_lost() {
    let mut world = World::new(PLAIN);
    world.appended(0..3, Ack::Written);
    world.lose(1);
    let end = world.next;
    World::found(world.after(Crash::Kill), end, "which was promised");
}

#[test]
fn a_power_cut_may_take_what_was_written_but_not_what_was_durable() {
    for (level, whole) in [(Ack::Written, true), (Ack::Durable, false)] {
        let mut world = World::new(PLAIN);
        world.appended(0..3, level);
        world.lose(1);
        assert_eq!(world.after(Crash::PowerCut).is_ok(), whole, "{level:?}");
    }
}

#[test]
fn enforce_fsync_raises_every_answer_and_what_polls_showed() {
    let mut world = World::new(FSYNC);
    world.appended(0..3, Ack::Appended);
    world.lose(1);
    assert!(world.after(Crash::PowerCut).is_err());

    for (id, whole) in [(PLAIN, true), (FSYNC, false)] {
        let mut world = World::new(id);
        world.offer(key(0), Ack::Appended);
        world.store(key(0));
        let (partition, end) = (id, world.next);
        world.history.note(&Event::Served { partition, end }).expect("it is no lie");
        world.lose(1);
        assert_eq!(world.after(Crash::PowerCut).is_ok(), whole, "{id}");
    }
}

#[test]
fn a_flush_promises_what_was_appended_before_it() {
    let mut world = World::new(PLAIN);
    world.appended(0..3, Ack::Appended);
    let (partition, end, level) = (PLAIN, world.next, Ack::Durable);
    world.history.note(&Event::Reached { partition, end, level }).expect("it is no lie");
    world.lose(1);
    assert!(world.after(Crash::PowerCut).is_err());
}

#[test]
fn a_close_in_order_makes_everything_durable() {
    let mut world = World::new(PLAIN);
    world.appended(0..3, Ack::Appended);
    world.history.note(&Event::Closed).expect("it is no lie");
    world.lose(1);
    assert!(world.after(Crash::PowerCut).is_err());
}

#[test]
fn what_was_served_after_one_crash_is_lost_in_the_next() {
    let mut world = World::new(PLAIN);
    world.appended(0..3, Ack::Appended);
    assert_eq!(world.after(Crash::PowerCut), Ok(3));
    world.lose(1);
    let end = world.next;
    World::found(world.after(Crash::PowerCut), end, "number: 2");
}

#[test]
fn two_batches_of_a_producer_changed_places() {
    let mut world = World::new(PLAIN);
    world.offer(key(0), Ack::Written);
    world.offer(key(1), Ack::Written);
    world.store(key(1));
    let second = world.next;
    world.store(key(0));
    World::found(world.after(Crash::Kill), second, "the order of each producer");
}

#[test]
fn an_answered_batch_is_at_another_offset() {
    let mut world = World::new(PLAIN);
    world.offer(key(0), Ack::Appended);
    world.offer(key(1), Ack::Appended);
    world.store(key(0));
    let appended = world.store(key(1));
    let elsewhere = Appended { base_offset: appended.base_offset + 50, ..appended };
    world.answer(key(1), elsewhere).expect("nothing is known that contradicts");
    World::found(world.after(Crash::Kill), appended.base_offset, "only");
}

#[test]
fn a_batch_was_altered_and_its_checksums_made_right() {
    let mut world = World::new(PLAIN);
    world.appended(0..2, Ack::Written);
    let forged = Content::new(6).batch(PLAIN, key(0));
    world.stored[0] = stamped(&forged, PLAIN, 0, 100);
    World::found(world.after(Crash::Kill), 0, "expected");

    let mut world = World::new(PLAIN);
    world.appended(0..2, Ack::Written);
    *world.stored[1].last_mut().expect("it has bytes") ^= 1;
    let start = end_of(&world.stored[0]);
    World::found(world.after(Crash::Kill), start, "a sound batch");
}

#[test]
fn a_batch_has_another_time_than_was_answered_or_than_its_place_allows() {
    let mut world = World::new(PLAIN);
    world.appended(0..1, Ack::Written);
    world.stored[0] = stamped(&CONTENT().batch(PLAIN, key(0)), PLAIN, 0, 99);
    World::found(world.after(Crash::Kill), 0, "time 99");

    let mut world = World::new(PLAIN);
    world.offer(key(0), Ack::Written);
    world.offer(key(1), Ack::Written);
    world.store(key(0));
    world.time = 100;
    let second = world.next;
    world.store(key(1));
    World::found(world.after(Crash::Kill), second, "a time after 100");
}

#[test]
fn there_is_a_gap() {
    let mut world = World::new(PLAIN);
    world.appended(0..3, Ack::Appended);
    let first_end = end_of(&world.stored[0]);
    world.stored.remove(1);
    World::found(world.after(Crash::Kill), first_end, "dense offsets");
}

#[test]
fn the_end_of_what_is_served_is_not_the_end_of_the_log() {
    let mut world = World::new(PLAIN);
    world.appended(0..3, Ack::Appended);
    let end = world.next;
    world.next += 1;
    World::found(world.after(Crash::Kill), end, "more batches");
}

/// Offsets are dense, but a batch that took its place before another one is not there.
#[test]
fn a_batch_from_the_middle_of_a_producer_is_missing() {
    let mut world = World::new(PLAIN);
    world.offer(key(0), Ack::Written);
    world.offer(key(1), Ack::Written);
    world.store(key(1));
    World::found(world.after(Crash::Kill), 0, "from the middle");

    // One that failed leaves no hole.
    let mut world = World::new(PLAIN);
    world.offer(key(0), Ack::Written);
    let failed = Event::Failed { partition: PLAIN, key: key(0) };
    world.history.note(&failed).expect("it was offered");
    world.offer(key(1), Ack::Written);
    world.store(key(1));
    assert_eq!(world.after(Crash::Kill), Ok(1));
}

#[test]
fn a_batch_is_there_that_nobody_offered() {
    let mut world = World::new(PLAIN);
    world.store(key(0));
    World::found(world.after(Crash::Kill), 0, "never was");
}

#[test]
fn a_batch_is_stored_twice() {
    let mut world = World::new(PLAIN);
    world.appended(0..1, Ack::Written);
    let end = world.next;
    world.store(key(0));
    World::found(world.after(Crash::Kill), end, "at offset 0 only");
}

#[test]
fn a_refused_batch_is_there() {
    let mut world = World::new(PLAIN);
    world.offer(key(0), Ack::Written);
    let refused = Event::Refused { partition: PLAIN, key: key(0) };
    world.history.note(&refused).expect("it was offered");
    world.store(key(0));
    World::found(world.after(Crash::Kill), 0, "gone for good");

    // Offered again it may be.
    let mut world = World::new(PLAIN);
    world.offer(key(0), Ack::Written);
    world.history.note(&refused).expect("it was offered");
    world.appended(0..1, Ack::Written);
    assert_eq!(world.after(Crash::Kill), Ok(1));
}

#[test]
fn a_batch_comes_back_after_a_crash_had_taken_it() {
    let mut world = World::new(PLAIN);
    world.appended(0..2, Ack::Appended);
    world.lose(1);
    assert_eq!(world.after(Crash::Kill), Ok(1));
    let end = world.next;
    world.time = 200;
    world.store(key(1));
    World::found(world.after(Crash::Kill), end, "gone for good");
}

/// Two lives without a reading between them: the second one's opening says what the first one left.
#[test]
fn a_life_goes_on_where_the_last_opening_ended() {
    let opened = |lost: usize| {
        let mut world = World::new(PLAIN);
        world.appended(0..2, Ack::Written);
        world.appended(2..3, Ack::Appended);
        world.offer(key(3), Ack::Appended);
        world.store(key(3));
        world.lose(lost);
        let recovered = Event::Recovered { partition: PLAIN, end: world.next };
        (world.history.note(&recovered), world)
    };
    for lost in 0..=2 {
        let (recovered, mut world) = opened(lost);
        assert_eq!(recovered, Ok(()), "{lost}");
        world.time = 200;
        world.appended(4..6, Ack::Written);
        assert_eq!(world.after(Crash::Kill), Ok(6 - lost as u64), "{lost}");
    }
    let (recovered, world) = opened(3);
    World::found(recovered.map(|()| 0), world.next, "which was promised");
    // What the first crash took comes back behind the second life's batches.
    for (lost, nth) in [(2, 2), (1, 3)] {
        let (_, mut world) = opened(lost);
        world.time = 200;
        world.appended(4..5, Ack::Written);
        let end = world.next;
        world.store(key(nth));
        World::found(world.after(Crash::Kill), end, "although a crash had taken it");
    }
    // And what the second opening showed is lost.
    let (_, mut world) = opened(0);
    world.lose(1);
    let end = world.next;
    World::found(world.after(Crash::PowerCut), end, "which was promised");
}

#[test]
fn offsets_and_times_that_were_promised_are_given_away_again() {
    let mut world = World::new(PLAIN);
    world.appended(0..2, Ack::Written);
    assert_eq!(world.after(Crash::Kill), Ok(2));
    world.offer(key(2), Ack::Written);
    let again = Appended { base_offset: world.next - 1, base_timestamp: 200, message_count: 1 };
    let broken = world.clone().answer(key(2), again).expect_err("it is a lie");
    assert!(broken.expected.contains("new offsets"), "{broken}");
    let late = Appended { base_offset: world.next, base_timestamp: 101, message_count: 1 };
    let broken = world.answer(key(2), late).expect_err("it is a lie");
    assert!(broken.expected.contains("a time after 101"), "{broken}");
}

#[test]
fn two_answers_overlap() {
    let mut world = World::new(PLAIN);
    world.offer(key(0), Ack::Written);
    world.offer(key(1), Ack::Written);
    let appended = Appended { base_offset: 0, base_timestamp: 100, message_count: 5 };
    world.answer(key(0), appended).expect("it is the first");
    let inside = Appended { base_offset: 4, base_timestamp: 101, message_count: 5 };
    let broken = world.answer(key(1), inside).expect_err("it is a lie");
    assert!(broken.expected.contains("given away once"), "{broken}");
}

#[test]
fn the_front_is_missing() {
    let mut world = World::new(PLAIN);
    world.appended(0..2, Ack::Written);
    world.history.crashed(Crash::Kill);
    let broken = world.history.reading(PLAIN, 1).err().expect("nothing was trimmed");
    assert_eq!(broken.offset, Some(0));
}

/// Another process may judge the next crash: it knows what is there, and nothing that is gone.
#[test]
fn a_history_that_was_retold_demands_the_same() {
    let mut world = World::new(PLAIN);
    world.appended(0..4, Ack::Appended);
    world.lose(1);
    let lost = world.clone();
    world.after(Crash::PowerCut).expect("a suffix is lost");
    world.offer(key(9), Ack::Durable);
    let retold = |world: &World| {
        let mut other = World { history: History::new(CONTENT(), "again"), ..world.clone() };
        other.history.add_partition(PLAIN, false);
        world.history.retold().iter().for_each(|event| other.history.note(event).expect("a truth"));
        other
    };
    retold(&world).after(Crash::PowerCut).expect("all is there, the new one never came");
    let mut less = retold(&world);
    less.lose(1);
    World::found(less.after(Crash::PowerCut), less.next, "was promised");
    let mut back = retold(&world);
    back.store(key(3));
    World::found(back.after(Crash::PowerCut), lost.next, "never was");
    let mut new = retold(&world);
    new.store(key(9));
    new.after(Crash::PowerCut).expect("it was offered");
}

#[test]
fn a_report_says_where_and_how_to_see_it_again() {
    let mut world = World::new(PLAIN);
    world.appended(0..1, Ack::Durable);
    world.lose(1);
    let text = world.after(Crash::Kill).expect_err("it is lost").to_string();
    for part in ["seed 0x5", "round 1", "partition 0", "offset 0", "everything below", "again"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
