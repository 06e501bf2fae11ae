//! Events of disks that fail, fill up, are slow or hang.

use std::thread;
use std::time::Duration;

use corelog::error::{AppendError, CloseError, storage};
use corelog::{Ack, Client, TopicConfig};
use corelog_crash::hostile::{Answer, Kind, Op, Rule};
use corelog_crash::ledger;
use corelog_format::{HeaderValue, OptionsBuilder};

use crate::subscriber::{await_told, told};
use crate::support::{P, batch, builder, log, mounted, with_topic};

fn fails(op: Op, kind: Kind, errno: i32) -> Rule {
    Rule::new(op, kind, Answer::Errno(errno))
}

fn append(client: &Client, len: usize, ack: Ack) -> Result<(), AppendError> {
    client.append_blocking(P, batch(len), ack).map(drop)
}

/// Nobody waits for the write that fails: it is told all the same, and at once.
#[test]
fn a_write_that_fails_is_told_though_nobody_waits_for_it() {
    let mounted = mounted();
    let (engine, client) = with_topic(builder(&mounted.data));
    append(&client, 100, Ack::Durable).expect("a healthy disk");
    mounted.disk.begin(&[fails(Op::Write, Kind::Log, libc::EIO)]);
    append(&client, 100, Ack::Appended).expect("it is in memory");
    let poisoned = await_told(&mounted.data, "partition_poisoned");
    assert!(poisoned.is("op", "write") && poisoned.has("error", "os error 5"), "{poisoned:?}");
    let ago = i128::from(ledger::now_us()) - i128::from(poisoned.number("since_us"));
    assert!(Duration::from_secs(60).as_micros() as i128 > ago.abs(), "{ago} us ago");
    assert!(poisoned.is("path", log(&mounted.data, 0).to_str().expect("UTF-8")), "{poisoned:?}");
    let totals = client.totals_blocking().expect("it lives");
    assert_eq!((totals.shards[0].poisoned, totals.shards[0].counts.faults), (1, 1));
    mounted.disk.end();

    client.reopen_partition_blocking(P).expect("writes work again");
    let recovered = await_told(&mounted.data, "partition_recovered");
    assert!(recovered.is("reopened", "true") && recovered.is("read_only", "false"));
    let totals = client.totals_blocking().expect("it lives");
    assert_eq!((totals.shards[0].poisoned, totals.shards[0].counts.faults), (0, 1));
    engine.close_blocking().expect("nothing is wrong any more");
}

#[test]
fn a_sync_that_fails_and_the_close_behind_it() {
    let mounted = mounted();
    let (engine, client) = with_topic(builder(&mounted.data));
    mounted.disk.begin(&[fails(Op::Fdatasync, Kind::Log, libc::EIO)]);
    append(&client, 100, Ack::Durable).expect_err("nothing says that it is durable");
    let poisoned = await_told(&mounted.data, "partition_poisoned");
    assert!(poisoned.is("op", "sync"), "{poisoned:?}");
    assert_eq!(client.totals_blocking().expect("it lives").shards[0].counts.append_errors, 1);
    mounted.disk.end();
    let closed = engine.close_blocking();
    let Err(closed @ CloseError::Incomplete { .. }) = closed else { panic!("{closed:?}") };
    let badly = await_told(&mounted.data, "engine_closed_badly");
    assert!(badly.is("error", &closed.to_string()) && badly.is_a_while(), "{badly:?}");
    assert!(told(&mounted.data, "engine_closed").is_empty());
}

#[test]
fn a_disk_that_fills_up_is_told_once_and_so_is_its_end() {
    let mounted = mounted();
    let (engine, client) = with_topic(builder(&mounted.data));
    append(&client, 100, Ack::Written).expect("a healthy disk");
    mounted.disk.begin(&[fails(Op::Allocate, Kind::Log, libc::ENOSPC)]);
    for _ in 0..3 {
        let refused = append(&client, 900_000, Ack::Written).expect_err("there is no room");
        assert!(
            matches!(refused, AppendError::Storage(storage::AppendError::StorageFull(_))),
            "{refused}"
        );
    }
    assert_eq!(told(&mounted.data, "storage_full").len(), 1);
    let full = await_told(&mounted.data, "storage_full");
    assert!(full.has("path", "streams") && full.has("error", "os error 28"), "{full:?}");
    assert!(told(&mounted.data, "storage_back").is_empty());
    mounted.disk.end();
    append(&client, 900_000, Ack::Written).expect("there is room again");
    assert_eq!(told(&mounted.data, "storage_back").len(), 1);
    let totals = client.totals_blocking().expect("it lives");
    let counts = totals.shards[0].counts;
    assert_eq!((counts.batches, counts.append_errors, counts.faults), (2, 3, 0));
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn a_segment_that_cannot_be_made_is_told_and_made_later() {
    let mounted = mounted();
    let (engine, client) = with_topic(builder(&mounted.data));
    append(&client, 900_000, Ack::Written).expect("a healthy disk");
    append(&client, 900_000, Ack::Written).expect("the segment's last one");
    mounted.disk.begin(&[fails(Op::Create, Kind::Log, libc::EMFILE)]);
    let refused = append(&client, 100, Ack::Written).expect_err("there is no file for it");
    assert!(
        matches!(refused, AppendError::Storage(storage::AppendError::NoSegment(_))),
        "{refused}"
    );
    let told = await_told(&mounted.data, "no_file");
    assert!(told.is("path", &log(&mounted.data, 2).display().to_string()), "{told:?}");
    assert!(told.has("error", "os error 24"), "{told:?}");
    mounted.disk.end();
    append(&client, 100, Ack::Written).expect("now there is one");
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn writes_that_are_slow_and_such_that_hang() {
    let mounted = mounted();
    let slow = Duration::from_millis(100);
    let (engine, client) = with_topic(builder(&mounted.data).slow_io(slow));
    append(&client, 100, Ack::Written).expect("a healthy disk");
    mounted.disk.begin(&[Rule::new(Op::Write, Kind::Log, Answer::Slow(slow * 2))]);
    append(&client, 100, Ack::Written).expect("slowly");
    mounted.disk.end();
    let is_log = |told: &crate::subscriber::Told| told.fields["path"].ends_with("0.log");
    let found = told(&mounted.data, "io_slow").into_iter().find(is_log).expect("it was slow");
    assert!(found.is("op", "write") && found.is("hung", "false"), "{found:?}");
    assert!(found.number("took_ms") >= 200 && found.is_a_while(), "{found:?}");
    assert!(found.is("position", "0") && found.is("shard", "0"), "{found:?}");
    assert!(client.totals_blocking().expect("it lives").io[0].slow >= 1);

    mounted.disk.begin(&[Rule::new(Op::Write, Kind::Log, Answer::Held { then: None })]);
    let held = client.append(P, batch(100), Ack::Written);
    let hangs = await_told(&mounted.data, "io_hangs");
    assert!(hangs.is("op", "write") && hangs.has("path", "0.log"), "{hangs:?}");
    assert!((1000..60_000).contains(&hangs.number("since_ms")), "{hangs:?}");
    assert!(hangs.is("position", "0") && hangs.is("shard", "0"), "{hangs:?}");
    let io = client.totals_blocking().expect("it lives").io[0];
    assert_eq!((io.hanging, io.under_way), (1, 1));
    mounted.disk.end();
    held.wait().expect("it was held only");
    let ended = told(&mounted.data, "io_slow").into_iter().find(|told| told.is("hung", "true"));
    assert!(ended.expect("it took long").number("took_ms") >= 1000);
    assert_eq!(client.totals_blocking().expect("it lives").io[0].hanging, 0);
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn a_clock_record_that_cannot_be_stored_for_a_while() {
    let mounted = mounted();
    let engine = builder(&mounted.data).open().expect("a healthy disk");
    mounted.disk.begin(&[fails(Op::Write, Kind::Clock, libc::EIO)]);
    let failed = await_told(&mounted.data, "clock_not_stored");
    let clock = mounted.data.join("clock").display().to_string();
    assert!(failed.has("error", &clock) && failed.has("error", "os error 5"), "{failed:?}");
    assert!(told(&mounted.data, "clock_stored_again").is_empty());
    mounted.disk.end();
    let again = await_told(&mounted.data, "clock_stored_again").number("failures");
    let failures = engine.client().totals_blocking().expect("it lives").clock_failures;
    assert!(again >= 1 && again == failures, "{again} of {failures}");
    // The record is stored every second: what comes behind is nothing to tell.
    thread::sleep(Duration::from_millis(2_500));
    assert_eq!(told(&mounted.data, "clock_stored_again").len(), 1);
    assert_eq!(told(&mounted.data, "clock_not_stored").len() as u64, failures);
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn a_catalog_that_fails_and_is_written_anew() {
    let mounted = mounted();
    let (engine, client) = with_topic(builder(&mounted.data));
    let catalog = client.catalog();
    let path = mounted.data.join("catalog.redb").display().to_string();
    let create = |name: &str| catalog.create_topic(0, name, TopicConfig::default()).wait();
    mounted.disk.begin(&[
        fails(Op::Fsync, Kind::Catalog, libc::EIO),
        fails(Op::Fdatasync, Kind::Catalog, libc::EIO),
        fails(Op::Rename, Kind::Other, libc::EIO),
        fails(Op::Create, Kind::Other, libc::EIO),
    ]);
    create("lost").expect_err("it cannot be written");
    // The second one is of the file that was to take the first one's place.
    for (name, renews) in [("catalog_failed", false), ("catalog_not_renewed", true)] {
        let told = await_told(&mounted.data, name);
        assert!(told.is("path", &path) && told.has("error", "os error 5"), "{told:?}");
        assert_eq!(told.has("error", "catalog.tmp"), renews, "{told:?}");
    }
    assert!(told(&mounted.data, "catalog_renewed").is_empty());
    mounted.disk.end();
    create("kept").expect("the trouble is over");
    assert!(await_told(&mounted.data, "catalog_renewed").is("path", &path));
    engine.close_blocking().expect("nothing is wrong");
    for name in ["catalog_failed", "catalog_not_renewed", "catalog_renewed"] {
        assert_eq!(told(&mounted.data, name).len(), 1, "{name}");
    }
}

/// The mark is stored behind each sealed segment, and at most a second behind a sync.
#[test]
fn a_mark_that_cannot_be_stored_and_segments_that_cannot_be_deleted() {
    let mounted = mounted();
    let (engine, client) = with_topic(builder(&mounted.data));
    mounted.disk.begin(&[fails(Op::Write, Kind::Manifest, libc::EIO)]);
    append(&client, 100, Ack::Durable).expect("the log is well");
    assert!(await_told(&mounted.data, "mark_lags").fields["error"].contains("manifest"));
    mounted.disk.end();

    for _ in 0..3 {
        append(&client, 600_000, Ack::Durable).expect("it fits");
    }
    mounted.disk.begin(&[fails(Op::Unlink, Kind::Log, libc::EIO)]);
    let mut patch = OptionsBuilder::new();
    patch.push("message_expiry", HeaderValue::String("1us")).expect("it fits");
    client.catalog().update_topic(0, 0, "topic", &patch.block()).wait().expect("it may be changed");
    assert!(await_told(&mounted.data, "segments_stay").has("error", "os error 5"));
    mounted.disk.end();
    thread::sleep(Duration::from_millis(1));
    engine.close_blocking().expect("the mark is stored by now");
}
