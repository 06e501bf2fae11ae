//! Worlds that lie, each in one way; beside each lie the truth, which is accepted.

use super::*;

const P: PartitionId = PartitionId::new(STREAM, 0, 0);
const PLAIN: Change = Change::Create { topic: 0, name: 1, partitions: 1, enforce_fsync: false };

fn key(nth: u32) -> BatchKey {
    BatchKey::new(7, 0, nth)
}

/// An operator that is told the truth, and what an engine that keeps everything would show.
#[derive(Clone, Default)]
struct Told {
    world: World,
    nth: u32,
}

impl Told {
    /// With one topic of one partition.
    fn new() -> Told {
        let mut told = Told::default();
        told.done(PLAIN, 0);
        told
    }

    fn asked(&mut self, change: Change) {
        self.world.note(&Event::Changing(change)).expect("it may ask");
    }

    fn done(&mut self, change: Change, start: u64) {
        self.asked(change.clone());
        self.world.note(&Event::Changed { change, start }).expect("it is true");
    }

    fn offered(&mut self, level: Ack) -> BatchKey {
        let key = key(self.nth);
        self.nth += 1;
        self.world.note(&Event::Offered { partition: P, key, level }).expect("it is new");
        key
    }

    fn answered(&mut self, key: BatchKey, level: Ack, base: u64) -> Result<(), Wrong> {
        let appended = Appended { base_offset: base, base_timestamp: 100 + base, message_count: 2 };
        self.world.note(&Event::Acked { partition: P, key, level, appended })
    }

    /// Batches of two messages each.
    fn appended(&mut self, count: u32, level: Ack) {
        for _ in 0..count {
            let key = self.offered(level);
            let base = self.shown().end;
            self.answered(key, level, base).expect("it is true");
        }
    }

    fn stored(&mut self, offset: Option<u64>, level: Ack) {
        self.done(Change::Store { partition: P, who: 0, offset, level }, 0);
    }

    /// What is shown of the first partition.
    fn shown(&self) -> FoundPartition {
        self.world.shown().topics[&0].partitions[0].clone()
    }

    /// Whether this may be shown after a crash.
    fn may(&self, crash: Crash, found: &Found) -> bool {
        let mut after = self.world.clone();
        after.crashed(crash);
        after.found(found).is_ok()
    }

    /// What everything looks like when the first partition was changed so.
    fn with(&self, change: impl FnOnce(&mut FoundPartition)) -> Found {
        let mut found = self.world.shown();
        change(&mut found.topics.get_mut(&0).expect("it is there").partitions[0]);
        found
    }
}

/// The last `count` batches are not there.
fn without(count: usize) -> impl FnOnce(&mut FoundPartition) {
    move |part| {
        part.batches.truncate(part.batches.len() - count);
        part.end = part.batches.last().map_or(part.start, |last| last.end);
    }
}

#[test]
fn an_answered_change_is_there_and_one_that_was_not_is_whole_or_absent() {
    let mut told = Told::new();
    told.done(Change::Create { topic: 1, name: 2, partitions: 2, enforce_fsync: true }, 0);
    told.appended(2, Ack::Durable);
    let changes = [
        Change::Create { topic: 2, name: 3, partitions: 3, enforce_fsync: false },
        Change::Rename { topic: 0, name: 4 },
        Change::Purge { topic: 0 },
        Change::Delete { topic: 1 },
        Change::Add { topic: 1, count: 1 },
        Change::Remove { topic: 1, count: 2 },
    ];
    for change in changes {
        let before = told.world.shown();
        let (mut asked, mut done) = (told.clone(), told.clone());
        asked.asked(change.clone());
        done.done(change.clone(), 0);
        let after = done.world.shown();
        for crash in [Crash::Kill, Crash::PowerCut] {
            assert!(asked.may(crash, &before) && asked.may(crash, &after), "{change}");
            assert!(done.may(crash, &after) && !done.may(crash, &before), "{change} undone");
            assert!(!told.may(crash, &after), "{change}, which nobody asked for");
        }
    }
    // Half of it.
    told.asked(Change::Create { topic: 2, name: 3, partitions: 3, enforce_fsync: false });
    let mut half = told.clone();
    half.world.doubtful.clear();
    half.done(Change::Create { topic: 2, name: 3, partitions: 2, enforce_fsync: false }, 0);
    assert!(!told.may(Crash::Kill, &half.world.shown()));
}

#[test]
fn nothing_happened_behind_a_change_that_did_not() {
    let mut told = Told::new();
    let mut states = vec![told.world.shown()];
    let changes = [Change::Rename { topic: 0, name: 4 }, Change::Add { topic: 0, count: 1 }];
    let mut all = told.clone();
    for change in &changes {
        told.asked(change.clone());
        all.done(change.clone(), 0);
        states.push(all.world.shown());
    }
    assert!(states.iter().all(|state| told.may(Crash::PowerCut, state)));
    let mut only_second = Told::new();
    only_second.done(changes[1].clone(), 0);
    assert!(!told.may(Crash::PowerCut, &only_second.world.shown()));
}

#[test]
fn a_log_keeps_what_its_acks_promise_and_nothing_else_comes() {
    let mut told = Told::new();
    told.appended(2, Ack::Durable);
    told.appended(1, Ack::Written);
    told.appended(2, Ack::Appended);
    let open = told.offered(Ack::Durable);
    let may = |crash, found: &Found| told.may(crash, found);
    for lost in 0..=5 {
        let found = told.with(without(lost));
        assert_eq!(may(Crash::Kill, &found), lost <= 2, "{lost} were lost");
        assert_eq!(may(Crash::PowerCut, &found), lost <= 3, "{lost} were lost");
    }
    let add = |key, base, time| {
        told.with(|part| {
            part.batches.push(Lies { key, base, end: base + 1, time });
            part.end = base + 1;
        })
    };
    assert!(may(Crash::Kill, &add(open, 10, 200)));
    let lies = [
        ("of no offer", add(key(99), 10, 200)),
        ("a time that went back", add(open, 10, 100)),
        ("a gap", add(open, 11, 200)),
        ("one from the middle", told.with(|part| _ = part.batches.remove(1))),
        ("another in its place", told.with(|part| part.batches[1].key = open)),
        ("another time", told.with(|part| part.batches[4].time += 1)),
        ("less than it says", told.with(|part| part.end += 1)),
        ("a start that moved", told.with(|part| part.start = 2)),
    ];
    for (what, found) in lies {
        assert!(!may(Crash::Kill, &found), "{what}");
    }
}

#[test]
fn a_topic_that_enforces_syncs_keeps_every_answer() {
    let mut told = Told::default();
    told.done(Change::Create { topic: 0, name: 1, partitions: 1, enforce_fsync: true }, 0);
    told.appended(2, Ack::Appended);
    told.stored(Some(1), Ack::Appended);
    assert!(told.may(Crash::PowerCut, &told.world.shown()));
    assert!(!told.may(Crash::PowerCut, &told.with(without(1))));
    assert!(!told.may(Crash::PowerCut, &told.with(|part| part.offsets.clear())));
}

#[test]
fn what_was_purged_or_deleted_never_comes_back() {
    let mut told = Told::new();
    told.appended(3, Ack::Durable);
    let before = told.shown();
    told.done(Change::Purge { topic: 0 }, 0);
    assert!(told.may(Crash::Kill, &told.world.shown()));
    assert!(!told.may(Crash::Kill, &told.with(|part| *part = before.clone())));
    told.done(Change::Delete { topic: 0 }, 0);
    told.done(PLAIN, 0);
    assert!(!told.may(Crash::Kill, &told.with(|part| *part = before)));
}

#[test]
fn a_stored_offset_is_not_older_than_it_was_answered() {
    let mut told = Told::new();
    told.appended(5, Ack::Durable);
    told.stored(Some(2), Ack::Durable);
    told.stored(Some(4), Ack::Written);
    told.stored(Some(6), Ack::Appended);
    told.asked(Change::Store { partition: P, who: 0, offset: Some(8), level: Ack::Durable });
    let at = |told: &Told, offset: Option<u64>| {
        let found = told.with(|part| {
            part.offsets = offset.map(|offset| (0, offset)).into_iter().collect();
        });
        told.may(Crash::PowerCut, &found)
    };
    let may: Vec<_> = (0..10).filter(|offset| at(&told, Some(*offset))).collect();
    assert_eq!((may, at(&told, None)), (vec![4, 6, 8], false));
    assert!(!told.may(Crash::PowerCut, &told.with(|part| _ = part.offsets.insert(1, 4))));
    // What is taken back is gone.
    told.world.doubtful.clear();
    told.stored(None, Ack::Durable);
    assert!(at(&told, None) && !at(&told, Some(4)));
    // Put down to the end that a crash has left.
    let mut told = Told::new();
    told.appended(1, Ack::Durable);
    told.appended(1, Ack::Appended);
    told.stored(Some(3), Ack::Durable);
    let put_down = |offset: u64| {
        told.with(|part| {
            without(1)(part);
            part.offsets.insert(0, offset);
        })
    };
    assert!(told.may(Crash::Kill, &put_down(1)));
    assert!(!told.may(Crash::Kill, &put_down(3)) && !told.may(Crash::Kill, &put_down(0)));
}

#[test]
fn a_log_begins_where_it_was_cut_and_not_above_what_consumers_need() {
    let mut told = Told::new();
    told.appended(4, Ack::Durable);
    let cut = |told: &Told, start: u64| {
        told.with(|part| {
            part.start = start;
            part.batches.retain(|lies| lies.base >= start);
        })
    };
    let trim = Change::Trim { partition: P, count: 1 };
    told.asked(trim.clone());
    let may: Vec<_> = (0..9).filter(|at| told.may(Crash::Kill, &cut(&told, *at))).collect();
    assert_eq!(may, [0, 2, 4, 6, 8], "not answered, so it may begin with any batch");
    told.world.note(&Event::Changed { change: trim.clone(), start: 4 }).expect("it is true");
    assert!(told.may(Crash::Kill, &cut(&told, 4)));
    let mut before = cut(&told, 4);
    before.topics.get_mut(&0).expect("it is there").partitions[0].start = 2;
    assert!(!told.may(Crash::Kill, &before));
    told.stored(Some(5), Ack::Durable);
    told.asked(trim.clone());
    let mut lies = told.clone();
    assert!(told.world.note(&Event::Changed { change: trim.clone(), start: 6 }).is_ok());
    assert!(lies.world.note(&Event::Changed { change: trim, start: 8 }).is_err());
}

#[test]
fn answers_give_each_offset_once_and_in_their_order() {
    let mut told = Told::new();
    told.appended(2, Ack::Written);
    let (first, second) = (told.offered(Ack::Written), told.offered(Ack::Written));
    assert!(told.clone().answered(first, Ack::Written, 3).is_err(), "a gap");
    assert!(told.clone().answered(first, Ack::Written, 2).is_err(), "given before");
    assert!(told.clone().answered(second, Ack::Written, 4).is_err(), "out of turn");
    assert!(told.answered(first, Ack::Written, 4).is_ok());
}

#[test]
fn what_was_found_is_promised_and_tells_another_history() {
    let mut told = Told::new();
    told.appended(3, Ack::Appended);
    told.stored(Some(1), Ack::Appended);
    let found = told.with(without(1));
    told.world.crashed(Crash::PowerCut);
    told.world.found(&found).expect("it may be so");
    assert!(told.world.shown() == found && told.world.clone().found(&found).is_ok());
    assert!(!told.may(Crash::PowerCut, &told.with(without(1))));
    let mut other = Told::default();
    other.world.told(&found);
    assert!(other.may(Crash::PowerCut, &found));
    assert!(!other.may(Crash::PowerCut, &told.with(without(1))));
}
