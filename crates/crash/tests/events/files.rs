//! Events of what is found in files: at an opening, and by polls.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use corelog::consumers::{ConsumerKey, ConsumerKind};
use corelog::{Ack, Engine, Poll};
use corelog_crash::hostile::{Answer, Kind, Op, Rule};

use crate::subscriber::{Told, await_told, told};
use crate::support::{P, batch, builder, log, mounted, partition, temp_dir, with_topic};

/// Everything that the engine's report of its only partition says.
fn is_as_reported(recovered: &Told, engine: &Engine) {
    let [(P, Ok(report))] = &engine.opened().not_clean[..] else { panic!("{:?}", engine.opened()) };
    assert!(recovered.is("row", report.row), "{recovered:?}, {report:?}");
    for (field, value) in [
        ("recovered_batches", report.recovered_batches),
        ("rewritten_bytes", report.rewritten_bytes),
        ("cut_bytes", report.cut_bytes),
        ("bytes_read", report.bytes_read),
    ] {
        assert_eq!(recovered.number(field), value, "{field}: {report:?}");
    }
}

/// What was appended to a log behind its mark is written again; the event says how much.
#[test]
fn a_log_that_was_not_closed() {
    let dir = temp_dir();
    let data = dir.path().join("data");
    let (engine, client) = with_topic(builder(&data));
    client.append_blocking(P, batch(100), Ack::Durable).expect("it fits");
    let (manifest, older) = (partition(&data).join("manifest"), dir.path().join("older"));
    fs::copy(&manifest, &older).expect("it is there");
    client.append_blocking(P, batch(5_000), Ack::Durable).expect("it fits");
    engine.close_blocking().expect("nothing is wrong");
    fs::copy(&older, &manifest).expect("a copy");
    let engine = builder(&data).open().expect("that stops no opening");
    let recovered = await_told(&data, "partition_recovered");
    is_as_reported(&recovered, &engine);
    assert!(recovered.number("recovered_batches") >= 1 && recovered.is("cut_bytes", "0"));
    assert!(recovered.number("rewritten_bytes") > 5_000, "{recovered:?}");
    engine.close_blocking().expect("nothing is wrong");
}

/// Damage in the last batch that was synced.
#[test]
fn damage_below_the_mark_is_told_with_its_place() {
    let dir = temp_dir();
    let data = dir.path().join("data");
    let (engine, client) = with_topic(builder(&data));
    for _ in 0..2 {
        client.append_blocking(P, batch(5_000), Ack::Durable).expect("it fits");
    }
    engine.close_blocking().expect("nothing is wrong");
    let file = OpenOptions::new().write(true).open(log(&data, 0)).expect("it is there");
    let last = batch(5_000).len() as u64;
    file.write_all_at(&[1, 2, 3], last + 2_000).expect("it can be written");
    let engine = builder(&data).open().expect("damage stops no opening");
    let found = await_told(&data, "damage_found");
    assert!(found.is("what", "corrupt") && found.is("segment", "0"), "{found:?}");
    assert_eq!(found.number("position"), last, "{found:?}");
    is_as_reported(&await_told(&data, "partition_recovered"), &engine);
    drop(engine);
}

#[test]
fn damage_that_an_opening_finds_and_damage_that_a_poll_meets() {
    let dir = temp_dir();
    let data = dir.path().join("data");
    let (engine, client) = with_topic(builder(&data));
    for _ in 0..5 {
        client.append_blocking(P, batch(300_000), Ack::Durable).expect("it fits");
    }
    engine.close_blocking().expect("nothing is wrong");
    // In the second batch of the sealed segment; and both slots of the manifest.
    let file = OpenOptions::new().write(true).open(log(&data, 0)).expect("it is there");
    file.write_all_at(&[1, 2, 3], 400_000).expect("it can be written");
    fs::write(partition(&data).join("manifest"), [0x55; 8192]).expect("it can be written");

    let engine = builder(&data).open().expect("damage stops no opening");
    let found = await_told(&data, "damage_found");
    assert!(["manifest", "corrupt"].iter().any(|what| found.is("what", what)), "{found:?}");
    assert!(told(&data, "damage_found").iter().any(|told| told.is("what", "manifest")));
    let recovered = await_told(&data, "partition_recovered");
    assert!(recovered.is("reopened", "false"));
    is_as_reported(&recovered, &engine);
    let client = engine.client();
    client.poll_blocking(P, Poll::offset(1)).expect_err("it is damaged");
    let read = await_told(&data, "damage_read");
    assert!(read.is("what", "corrupt") && read.is("segment", "0"), "{read:?}");
    let position = batch(300_000).len() as u64;
    assert!(read.number("position") == position && read.is("resume_offset", "2"), "{read:?}");
    assert!(read.has("error", &position.to_string()), "{read:?}");
    let counts = client.totals_blocking().expect("it lives").shards[0].counts;
    assert_eq!((counts.poll_errors, counts.corrupt_reads), (1, 1));
    drop(engine);
}

/// A whole batch behind a torn one, of the offset that it would have: the later of two writes that were
/// under way when the power failed.
#[test]
fn whole_batches_that_are_cut_off_are_kept_apart() {
    let dir = temp_dir();
    let written = |name: &str, batches: usize| {
        let data = dir.path().join(name);
        let (engine, client) = with_topic(builder(&data));
        for _ in 0..batches {
            client.append_blocking(P, batch(5_000), Ack::Durable).expect("it fits");
        }
        engine.close_blocking().expect("nothing is wrong");
        data
    };
    let (data, other) = (written("data", 2), written("other", 5));
    let bytes = fs::read(log(&other, 0)).expect("it is there");
    let last = &bytes[bytes.len() / 5 * 4..];
    let mut file = OpenOptions::new().append(true).open(log(&data, 0)).expect("it is there");
    let torn = [0x55; 5_000];
    file.write_all(&torn).and_then(|()| file.write_all(last)).expect("it can be written");

    let engine = builder(&data).open().expect("that stops no opening");
    let kept = await_told(&data, "quarantined");
    assert!(fs::metadata(&kept.fields["path"]).expect("the copy is there").len() > 5_000);
    let recovered = await_told(&data, "partition_recovered");
    assert_eq!(recovered.number("cut_bytes"), (torn.len() + last.len()) as u64);
    is_as_reported(&recovered, &engine);
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn a_partition_that_cannot_be_opened() {
    let mounted = mounted();
    let (engine, client) = with_topic(builder(&mounted.data));
    client.append_blocking(P, batch(100), Ack::Durable).expect("it fits");
    drop(client);
    engine.close_blocking().expect("nothing is wrong");
    let refused = Rule::new(Op::Open, Kind::Log, Answer::Errno(libc::EACCES));
    mounted.disk.begin(&[refused]);
    let engine = builder(&mounted.data).open().expect("a partition stops no engine");
    assert!(await_told(&mounted.data, "partition_not_opened").fields["error"].contains("os error"));
    assert_eq!(await_told(&mounted.data, "engine_opened").number("not_clean"), 0);
    assert_eq!(told(&mounted.data, "engine_opened")[1].number("not_clean"), 1);
    assert_eq!(told(&mounted.data, "engine_opened")[1].number("partitions"), 0);
    assert_eq!(engine.client().totals_blocking().expect("it lives").shards[0].failed.len(), 1);
    mounted.disk.end();
    engine.client().reopen_partition_blocking(P).expect("it can be opened now");
    engine.close_blocking().expect("nothing is wrong");
}

/// What consumers stored cannot be read at the opening, and can be a while later.
#[test]
fn stored_offsets_that_cannot_be_read_and_then_can() {
    let mounted = mounted();
    let (engine, client) = with_topic(builder(&mounted.data));
    client.append_blocking(P, batch(100), Ack::Durable).expect("it fits");
    let me = ConsumerKey { kind: ConsumerKind::Consumer, id: 7 };
    client.store_offset(P, me, 0, Ack::Durable).wait().expect("it is there");
    drop(client);
    engine.close_blocking().expect("nothing is wrong");
    let refused = Rule::new(Op::Open, Kind::Other, Answer::Errno(libc::EIO));
    mounted.disk.begin(&[Rule { partition: Some(0), ..refused }]);
    let engine = builder(&mounted.data).open().expect("that stops no opening");
    let unread = await_told(&mounted.data, "offsets_unread");
    assert!(
        unread.has("path", "consumer_offsets") && unread.has("error", "os error 5"),
        "{unread:?}"
    );
    assert!(told(&mounted.data, "offsets_read").is_empty());
    let client = engine.client();
    client.append_blocking(P, batch(100), Ack::Durable).expect_err("it might count as consumed");
    mounted.disk.end();
    assert!(await_told(&mounted.data, "offsets_read").is("damaged", "false"));
    client.append_blocking(P, batch(100), Ack::Durable).expect("they are known");
    engine.close_blocking().expect("nothing is wrong");
}
