//! How an engine ends and begins again: closed, dropped, damaged, replaced.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use corelog::error::{
    AppendError, ChangeError, CloseError, ControlError, LockError, OpenError, PollError, RunError,
};
use corelog::{Ack, Engine, PartitionId, Poll, TopicConfig};
use corelog_format::{ClockRecord, SLOT_LEN};

use crate::callers::block_on;
use crate::support::{
    P, Sent, assert_same, batch, builder, fresh_dir, names, partition_dir, poll_all, reopened,
    small_segments, with_topic,
};

const HOUR_US: u64 = 3_600_000_000;

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    since.as_micros() as u64
}

fn append(client: &corelog::Client, tag: u64) -> Sent {
    let bytes = batch(tag, 2, 3_000);
    let appended = client.append_blocking(P, bytes.clone(), Ack::Written).expect("it fits");
    Sent { bytes, appended }
}

#[test]
fn dropping_without_a_close_loses_nothing_that_was_written() {
    let dir = fresh_dir("dropped");
    let mut sent = Vec::new();
    for round in 0..3 {
        let (engine, client) = match round {
            0 => with_topic(&dir, 2, TopicConfig::default()),
            _ => reopened(&dir, 2),
        };
        sent.extend((0..50).map(|tag| append(&client, tag)));
        drop(engine);
        let gone = client.append_blocking(P, batch(1, 1, 1), Ack::Written);
        assert!(matches!(gone, Err(AppendError::Closed)), "{gone:?}");
    }
    let (engine, client) = reopened(&dir, 2);
    assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn clients_of_a_closed_engine_are_told_so() {
    let dir = fresh_dir("told_closed");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    append(&client, 1);
    let records = client.poll_blocking(P, Poll::first()).expect("it is there");
    block_on(engine.close()).expect("nothing is wrong, and the records may stay out");
    assert_eq!(records.messages(), 2);
    assert_eq!(crate::support::batches(&records).len(), 1, "and can be read for ever");
    let append = client.append_blocking(P, batch(1, 1, 1), Ack::Written);
    assert!(matches!(append, Err(AppendError::Closed)), "{append:?}");
    let poll = client.poll_blocking(P, Poll::first());
    assert!(matches!(poll, Err(PollError::Closed)), "{poll:?}");
    let create = client.catalog().create_stream("late").wait();
    assert!(matches!(create, Err(ChangeError::Closed)), "{create:?}");
    assert!(matches!(client.stats_blocking(), Err(ControlError::Unavailable(_))));
}

/// What was on its way when the close came is answered: stored, or refused as `Closed`.
#[test]
fn appends_on_their_way_are_stored_or_refused_by_a_close() {
    let dir = fresh_dir("close_under_load");
    let (engine, client) = with_topic(&dir, 1, small_segments());
    let calls: Vec<_> =
        (0..500).map(|tag| client.append(P, batch(tag, 1, 2_000), Ack::Durable)).collect();
    engine.close_blocking().expect("nothing is wrong");
    let answers: Vec<_> = calls.into_iter().map(corelog::calls::Call::wait).collect();
    let stored = answers.iter().take_while(|answer| answer.is_ok()).count();
    let refused = answers.iter().skip(stored).all(|a| matches!(a, Err(AppendError::Closed)));
    assert!(refused, "a prefix is stored, the rest refused");
    let (engine, client) = reopened(&dir, 1);
    assert_eq!(client.watermarks_blocking(P).expect("it is open").appended(), stored as u64);
    engine.close_blocking().expect("nothing is wrong");
}

/// Opens what another engine may still be closing in the background.
fn open_when_free(dir: &std::path::Path) -> Engine {
    for _ in 0..2_000 {
        match builder(dir, 1).open() {
            Err(OpenError::Lock(LockError::Held { .. })) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other.expect("it was closed in order"),
        }
    }
    panic!("the engine in the background never let go");
}

#[test]
fn dropping_or_closing_on_a_shard_closes_in_the_background() {
    let dir = fresh_dir("dropped_on_shard");
    let mut sent = Vec::new();
    for how in ["drop", "close_blocking", "close"] {
        let (engine, client) = match how {
            "drop" => with_topic(&dir, 1, TopicConfig::default()),
            _ => {
                let engine = open_when_free(&dir);
                assert!(engine.opened().not_clean.is_empty(), "{:?}", engine.opened());
                let client = engine.client();
                (engine, client)
            }
        };
        sent.push(append(&client, 1));
        let engine = Arc::new(std::sync::Mutex::new(Some(engine)));
        let inside = Arc::clone(&engine);
        let run = engine.lock().expect("no panic").as_ref().expect("it is open").run_on_shard(
            0,
            move |_| async move {
                let engine = inside.lock().expect("no panic").take().expect("it is open");
                match how {
                    "drop" => drop(engine),
                    "close" => {
                        let closed = engine.close().await;
                        assert!(matches!(closed, Err(CloseError::OnShard)), "{closed:?}");
                    }
                    _ => {
                        let closed = engine.close_blocking();
                        assert!(matches!(closed, Err(CloseError::OnShard)), "{closed:?}");
                    }
                }
            },
        );
        let ran = block_on(run);
        assert!(matches!(ran, Ok(()) | Err(RunError::Closed)), "{how}: {ran:?}");
    }
    let engine = open_when_free(&dir);
    assert_same(P, &sent, &poll_all(&engine.client(), P, 0, 1 << 20));
    engine.close_blocking().expect("nothing is wrong");
}

/// Four partitions: one is whole, one is damaged below its mark, one has a manifest of a newer
/// release, one has lost its log. The engine opens, says what it met, and serves all that can be
/// served.
#[test]
fn a_damaged_partition_never_stops_the_rest() {
    let dir = fresh_dir("damaged_partition");
    let config = TopicConfig { partitions: 4, ..small_segments() };
    let (engine, client) = with_topic(&dir, 2, config);
    let id = |partition| PartitionId { partition, ..P };
    for partition in 0..4 {
        for tag in 0..20 {
            client
                .append_blocking(id(partition), batch(tag, 1, 5_000), Ack::Written)
                .expect("fits");
        }
    }
    engine.close_blocking().expect("nothing is wrong");
    let log = partition_dir(&dir, id(1)).join("00000000000000000000.log");
    let log = fs::OpenOptions::new().write(true).open(log).expect("it is there");
    log.write_all_at(&[0xEE; 64], 60_000).expect("it can be written");
    let manifest = partition_dir(&dir, id(2)).join("manifest");
    let mut slots = fs::read(&manifest).expect("it is there");
    for slot in slots.chunks_mut(SLOT_LEN) {
        slot[16] = 9;
        let sum = corelog_format::checksum::xxh3(&slot[16..]).to_le_bytes();
        slot[8..16].copy_from_slice(&sum);
    }
    fs::write(&manifest, slots).expect("it can be written");

    let lost = partition_dir(&dir, id(3)).join("00000000000000000000.log");
    fs::remove_file(lost).expect("it is there");

    let engine = builder(&dir, 2).open().expect("damage of data is no reason to refuse");
    let opened = engine.opened();
    assert_eq!(opened.partitions, 3);
    let not_clean: Vec<_> = opened.not_clean.iter().map(|(id, _)| id.partition).collect();
    // What lies below the mark is not read by an opening: a poll finds that damage.
    assert_eq!(not_clean, [2, 3], "{opened:?}");
    assert!(opened.not_clean[1].1.as_ref().is_ok_and(|report| !report.damage.is_empty()));
    let error =
        opened.not_clean[0].1.as_ref().expect_err("a newer manifest is refused").to_string();
    assert!(error.contains("version 9") && error.contains("manifest"), "{error}");

    let client = engine.client();
    assert_eq!(poll_all(&client, id(0), 0, 1 << 20).len(), 20);
    client.append_blocking(id(0), batch(1, 1, 10), Ack::Written).expect("it is whole");
    let records = client.poll_blocking(id(1), Poll::first()).expect("up to the damage");
    assert!(records.messages() > 5 && records.messages() < 20, "{records:?}");
    let damaged = client.poll_blocking(id(1), Poll::offset(records.next_offset()));
    assert!(matches!(damaged, Err(PollError::Storage(_))), "{damaged:?}");
    let refused = client.append_blocking(id(2), batch(1, 1, 10), Ack::Written);
    assert!(matches!(refused, Err(AppendError::PartitionFailed(_))), "{refused:?}");
    let next = client.append_blocking(id(3), batch(1, 1, 10), Ack::Written).expect("it goes on");
    assert_eq!(next.base_offset, 20, "behind what was lost");
    engine.close_blocking().expect("what is open closes in order");
}

/// A directory of an earlier incarnation stands in the way of its successor: it is moved away
/// whole, and the partition begins empty, which is said.
#[test]
fn directories_of_an_earlier_incarnation_go_to_the_trash_whole() {
    let dir = fresh_dir("other_incarnation");
    let (streams, earlier) = (dir.join("streams"), dir.join("earlier"));
    for round in 1..=2 {
        let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
        append(&client, round);
        engine.close_blocking().expect("nothing is wrong");
        if round == 1 {
            fs::rename(&streams, &earlier).expect("it is closed");
            fs::remove_file(dir.join("catalog.redb")).expect("it is there");
        }
    }
    fs::remove_dir_all(&streams).expect("it is closed");
    fs::rename(&earlier, &streams).expect("it is closed");
    let engine = builder(&dir, 1).open().expect("one partition never stops the engine");
    let [(P, Ok(report))] = &engine.opened().not_clean[..] else {
        panic!("{:?}", engine.opened());
    };
    assert!(report.created, "{report:?}");
    let marks = engine.client().watermarks_blocking(P).expect("it is open");
    assert_eq!(marks.appended(), 0);
    engine.close_blocking().expect("nothing is wrong");
    let trash = dir.join("trash");
    let moved = trash.join(&names(&trash, "")[0]);
    let log = fs::read(moved.join("00000000000000000000.log")).expect("it was moved whole");
    assert!(log[256..] == batch(1, 2, 3_000)[256..]);
}

/// Two partitions' manifests, or their whole directories, changed places: only a person can tell
/// what belongs where. Nothing is moved, and put back it is as it was.
#[test]
fn partitions_that_changed_places_are_refused_and_left_alone() {
    let dir = fresh_dir("changed_places");
    let config = TopicConfig { partitions: 3, ..TopicConfig::default() };
    let (engine, client) = with_topic(&dir, 1, config);
    append(&client, 1);
    engine.close_blocking().expect("nothing is wrong");
    let [one, two] = [0, 1].map(|partition| partition_dir(&dir, PartitionId { partition, ..P }));
    for below in ["manifest", ""] {
        let swap = || {
            let between = dir.join("between");
            fs::rename(one.join(below), &between).expect("it is closed");
            fs::rename(two.join(below), one.join(below)).expect("it is closed");
            fs::rename(&between, two.join(below)).expect("it is closed");
        };
        swap();
        let engine = builder(&dir, 1).open().expect("one partition never stops the engine");
        assert_eq!(engine.opened().partitions, 1, "the third one is served");
        for (id, opened) in &engine.opened().not_clean {
            let text = opened.as_ref().expect_err("it is refused").to_string();
            assert!(text.contains("put back"), "{id}: {text}");
        }
        engine.close_blocking().expect("what is open closes in order");
        assert!(!dir.join("trash").exists(), "nothing was moved");
        swap();
        let (engine, client) = reopened(&dir, 1);
        assert_eq!(client.watermarks_blocking(P).expect("it is open").appended(), 2);
        engine.close_blocking().expect("nothing is wrong");
    }
}

/// An empty catalog beside data that an engine wrote would hide all of it.
#[test]
fn a_missing_catalog_is_named_and_not_begun_anew() {
    let dir = fresh_dir("no_catalog");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    append(&client, 1);
    engine.close_blocking().expect("nothing is wrong");
    let (catalog, copy) = (dir.join("catalog.redb"), dir.join("copy"));
    fs::rename(&catalog, &copy).expect("it is closed");
    let error = builder(&dir, 1).open().map(drop).expect_err("its catalog is missing").to_string();
    assert!(error.contains("catalog.redb") && error.contains("put back"), "{error}");
    assert!(!catalog.exists());
    fs::rename(&copy, &catalog).expect("it is there");
    let (engine, client) = reopened(&dir, 1);
    assert_eq!(client.watermarks_blocking(P).expect("it is open").appended(), 2);
    engine.close_blocking().expect("nothing is wrong");
}

/// The clock record says that stamps up to an hour from now were used: none comes again.
#[test]
fn time_starts_at_the_ceiling_of_a_crash() {
    let dir = fresh_dir("clock_ceiling");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let first = append(&client, 1);
    assert!(first.appended.base_timestamp.abs_diff(now_us()) < HOUR_US / 60);
    engine.close_blocking().expect("nothing is wrong");
    let ceiling_us = now_us() + HOUR_US;
    let record = ClockRecord { sequence: 1 << 40, ceiling_us };
    let clock = fs::OpenOptions::new().write(true).open(dir.join("clock")).expect("it is there");
    clock.write_all_at(&record.encode(), 0).expect("it can be written");
    let (engine, client) = reopened(&dir, 1);
    let second = append(&client, 2);
    assert!(second.appended.base_timestamp >= ceiling_us);
    engine.close_blocking().expect("nothing is wrong");
    // And it stays there, over clean closes too.
    let (engine, client) = reopened(&dir, 1);
    let third = append(&client, 3);
    assert!(third.appended.base_timestamp > second.appended.base_timestamp);
    engine.close_blocking().expect("nothing is wrong");
}

/// Data whose stamps are in the future, and a clock that does not know: appends go on behind them
/// instead of waiting for the time to come.
#[test]
fn appends_go_on_behind_stamps_from_the_future() {
    let dir = fresh_dir("future_stamps");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    append(&client, 0);
    engine.close_blocking().expect("nothing is wrong");
    let record = ClockRecord { sequence: 1 << 40, ceiling_us: now_us() + HOUR_US };
    let clock = fs::OpenOptions::new().write(true).open(dir.join("clock")).expect("it is there");
    clock.write_all_at(&record.encode(), 0).expect("it can be written");
    let (engine, client) = reopened(&dir, 1);
    let ahead = append(&client, 1);
    engine.close_blocking().expect("nothing is wrong");

    fs::remove_file(dir.join("clock")).expect("it is there");
    let (engine, client) = reopened(&dir, 1);
    let behind = append(&client, 2);
    assert!(behind.appended.base_timestamp > ahead.appended.base_timestamp, "the clock was lost");
    engine.close_blocking().expect("nothing is wrong");

    // Adopted: neither clock, nor catalog, nor manifest.
    for file in ["clock", "catalog.redb", "streams/0/topics/0/partitions/0/manifest"] {
        fs::remove_file(dir.join(file)).expect("it is there");
    }
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let adopted = append(&client, 3);
    assert!(adopted.appended.base_timestamp > behind.appended.base_timestamp, "it was adopted");
    assert_eq!(adopted.appended.base_offset, 6);
    engine.close_blocking().expect("nothing is wrong");
}
