//! The keeper on real files.

use std::os::unix::fs::FileExt;

use corelog_format::{ClockRecord, SLOT_LEN};

use super::*;

const AHEAD_US: u64 = AHEAD.as_micros() as u64;

fn stored(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let (a, b) = bytes.split_at(SLOT_LEN);
    ClockRecord::pick(a, b).unwrap().unwrap().0.ceiling_us
}

fn shown(bounds: &Bounds) -> (u64, u64) {
    (bounds.floor.load(Ordering::Relaxed), bounds.ceiling.load(Ordering::Relaxed))
}

#[test]
fn what_shards_may_stamp_is_durable_before_they_see_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bounds) = (dir.path().join("clock"), Bounds::default());
    let before = system_us();
    let (keeper, _) = ClockKeeper::open(&path, &bounds, &Events::of_test()).unwrap();
    let (floor, ceiling) = shown(&bounds);
    assert!(floor >= before && ceiling == floor + AHEAD_US, "{floor} {ceiling}");
    assert_eq!(stored(&path), ceiling);
    assert_eq!(keeper.failures(), (0, None));
}

#[test]
fn a_crash_starts_at_the_ceiling_and_a_clean_close_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bounds) = (dir.path().join("clock"), Bounds::default());
    drop(ClockKeeper::open(&path, &bounds, &Events::of_test()).unwrap());
    let (_, crashed_at) = shown(&bounds);
    let (keeper, _) = ClockKeeper::open(&path, &bounds, &Events::of_test()).unwrap();
    let (floor, ceiling) = shown(&bounds);
    assert!(floor >= crashed_at, "time went back: {floor} < {crashed_at}");
    keeper.close().unwrap();
    let closed_at = stored(&path);
    assert!((floor..ceiling).contains(&closed_at), "{floor} <= {closed_at} < {ceiling}");
    let reopened = Bounds::default();
    drop(ClockKeeper::open(&path, &reopened, &Events::of_test()).unwrap());
    assert!(shown(&reopened).0 >= closed_at);
}

#[test]
fn lifted_clocks_stay_up() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bounds) = (dir.path().join("clock"), Bounds::default());
    let (keeper, _) = ClockKeeper::open(&path, &bounds, &Events::of_test()).unwrap();
    let future = system_us() + 3_600_000_000;
    keeper.lift(future).unwrap();
    let (floor, ceiling) = shown(&bounds);
    assert!(floor >= future && ceiling >= future + AHEAD_US);
    keeper.close().unwrap();
    assert!(stored(&path) >= future, "a close does not fall below what may have been stamped");
}

/// A write that fails (the record's place is a directory's, so to speak: a read-only handle) leaves
/// the ceiling, is counted, and is tried again.
#[test]
fn a_failed_write_leaves_the_ceiling_and_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("clock");
    let (mut file, _) = ClockFile::open(&path).unwrap();
    file.store(7).unwrap();
    let mut file = file.read_only();
    let bounds = Bounds::default();
    bounds.ceiling.store(7, Ordering::Relaxed);
    let state = Arc::new(State::default());
    let keeper = Keeper {
        events: Events::of_test(),
        file: {
            file.store(8).unwrap_err();
            file
        },
        timeline: Timeline::new(0, 1),
        ticks: Instant::now(),
        bounds: bounds.clone(),
        state: Arc::clone(&state),
    };
    let (asks, inbox) = mpsc::channel();
    let (done, answer) = mpsc::channel();
    asks.send(Ask::Lift(9, done)).unwrap();
    drop(asks);
    keeper.run(&inbox);
    assert!(answer.recv().unwrap().is_err());
    assert_eq!(bounds.ceiling.load(Ordering::Relaxed), 7);
    assert_eq!(state.failures.load(Ordering::Relaxed), 1);
    assert!(state.last_failure.lock().unwrap().as_ref().unwrap().contains("clock"));
    assert_eq!(stored(&path), 7);
}

#[test]
fn damage_of_one_slot_costs_nothing_and_of_both_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bounds) = (dir.path().join("clock"), Bounds::default());
    ClockKeeper::open(&path, &bounds, &Events::of_test()).unwrap().0.close().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xEE; 64], 0).unwrap();
    drop(ClockKeeper::open(&path, &bounds, &Events::of_test()).unwrap());
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xEE; 2 * SLOT_LEN], 0).unwrap();
    let error = ClockKeeper::open(&path, &bounds, &Events::of_test()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("clock") && text.contains("move the file away"), "{text}");
}
