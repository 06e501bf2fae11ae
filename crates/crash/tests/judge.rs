//! The judge on a real data directory: accepts what is as it was answered, and finds what is not.

use std::path::{Path, PathBuf};

use corelog::{Ack, PartitionId, TopicConfig};
use corelog_crash::content::{BatchKey, Content};
use corelog_crash::history::{Crash, History};
use corelog_crash::judge::{Checks, Verdict, judge, small_engine};
use corelog_crash::ledger::Event;

const P: PartitionId = PartitionId::new(0, 0, 0);
const ALL: Checks = Checks { shards: 2, append: true, reopen: true };
const BATCHES: u32 = 40;

fn key(nth: u32) -> BatchKey {
    BatchKey::new(0, 0, nth)
}

/// A data directory with some segments that was closed in order, and its history.
fn written(name: &str) -> (PathBuf, History) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("judge").join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir).expect("an earlier run's directory can go");
    }
    std::fs::create_dir_all(&dir).expect("the target is writable");
    let content = Content::new(1);
    let mut history = History::new(content, "this test");
    history.add_partition(P, false);
    let engine = small_engine(&dir, 1).open().expect("a fresh directory opens");
    let client = engine.client();
    let config = TopicConfig { segment_bytes: 1 << 20, ..TopicConfig::default() };
    corelog_crash::topics::create_topic(&client, 0, 0, config).expect("the topic is new");
    for nth in 0..BATCHES {
        let (key, level) = (key(nth), Ack::Appended);
        history.note(&Event::Offered { partition: P, key, level }).expect("it is new");
        let appended = client.append_blocking(P, content.batch(P, key), level).expect("it fits");
        history.note(&Event::Acked { partition: P, key, level, appended }).expect("it is true");
    }
    engine.close_blocking().expect("nothing is wrong");
    history.note(&Event::Closed).expect("it is true");
    history.crashed(Crash::Kill);
    (dir, history)
}

#[test]
fn what_is_as_it_was_answered_is_accepted_life_after_life() {
    let (dir, mut history) = written("sound");
    for round in 0..3 {
        let verdict = judge(&mut history, &dir, ALL).expect("all is there");
        let batches = u64::from(BATCHES) + round;
        assert_eq!(verdict, Verdict { batches, ..Verdict::default() }, "round {round}");
        history.crashed(Crash::Kill);
    }
}

#[test]
fn a_batch_that_was_never_stored_is_missed() {
    let (dir, mut history) = written("missed");
    let end = history.known_end(P);
    let (key, level) = (key(BATCHES), Ack::Written);
    history.note(&Event::Offered { partition: P, key, level }).expect("it is new");
    let appended =
        corelog::Appended { base_offset: end, base_timestamp: u64::MAX, message_count: 1 };
    history.note(&Event::Acked { partition: P, key, level, appended }).expect("who knows");
    let broken = judge(&mut history, &dir, ALL).expect_err("it is a lie");
    assert_eq!((broken.partition, broken.offset), (Some(P), Some(end)), "{broken}");
}

/// The engine cannot know: the files are sound. Only what was answered tells.
#[test]
fn a_log_that_went_back_in_time_is_found() {
    let (dir, mut history) = written("older");
    let (_, mut other) = written("newer");
    std::fs::remove_dir_all(&dir).expect("it is there");
    std::fs::rename(dir.with_file_name("newer"), &dir).expect("it is on the same file system");
    assert!(judge(&mut other.clone(), &dir, ALL).is_ok());
    other.crashed(Crash::Kill);
    let broken = judge(&mut history, &dir, ALL).expect_err("times differ");
    assert!(broken.expected.contains("as it was answered"), "{broken}");
}

#[test]
fn damage_is_no_crash() {
    let (dir, mut history) = written("damaged");
    let segment = dir.join("streams/0/topics/0/partitions/0/00000000000000000000.log");
    let mut bytes = std::fs::read(&segment).expect("it is there");
    bytes[1000] ^= 1;
    std::fs::write(&segment, bytes).expect("it is writable");
    let broken = judge(&mut history, &dir, ALL).expect_err("a byte is another");
    assert_eq!((broken.partition, broken.offset.is_some()), (Some(P), true), "{broken}");
}
