//! What embedders of such engines have asked for and missed: reading that moves nothing, limits that
//! say what they do, a cursor that lives on, reading beside the writer, an opening that gives signs of
//! life.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use corelog::consumers::{ConsumerKey, ConsumerKind};
use corelog::error::OpenError;
use corelog::stats::Scope;
use corelog::{Ack, Client, Poll, TopicConfig};
use corelog_format::{Expect, Step, scan};
use rustix::fs::{FlockOperation, flock};

use crate::support::{
    P, batch, batches, builder, fresh_dir, names, partition_dir, poll_all, reopened,
    small_segments, with_topic,
};

fn append(client: &Client, tag: u64, len: usize) -> u64 {
    let appended = client.append_blocking(P, batch(tag, 1, len), Ack::Written).expect("it fits");
    appended.base_offset
}

fn segments(client: &Client) -> usize {
    client.figures_blocking(Scope::Partition(P)).expect("it is served")[0].1.segments
}

/// An append answers its place; a poll moves no stored offset, and the same poll gets the same bytes;
/// storing is a call of its own.
#[test]
fn reading_moves_nothing_and_storing_is_a_call_of_its_own() {
    let dir = fresh_dir("peek");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let me = ConsumerKey { kind: ConsumerKind::Consumer, id: 1 };
    let places: Vec<_> = (0..5).map(|tag| append(&client, tag, 100)).collect();
    assert_eq!(places, [0, 1, 2, 3, 4]);
    let look = || {
        let records = client.poll_blocking(P, Poll::next(me).max_messages(2));
        batches(&records.expect("it is served"))
    };
    let stored = || client.offset(P, me).wait().expect("it is known");
    let first = look();
    assert_eq!((look(), stored()), (first.clone(), None));
    client.store_offset(P, me, 1, Ack::Durable).wait().expect("it is there");
    let second = look();
    assert!(second != first);
    assert_eq!((look(), stored()), (second, Some(1)));
    // And back: what was stored is a bookmark, no deletion.
    client.store_offset(P, me, 0, Ack::Durable).wait().expect("it may go back");
    assert_eq!(look()[0], first[1]);
    engine.close_blocking().expect("nothing is wrong");
}

/// A segment that is full is followed by another, which the figures tell; nothing wraps around, and
/// what was first stays first until somebody deletes it.
#[test]
fn a_full_segment_is_followed_by_another_and_overwrites_nothing() {
    let dir = fresh_dir("full_segment");
    let (engine, client) = with_topic(&dir, 1, small_segments());
    append(&client, 0, 100);
    let first = client.poll_blocking(P, Poll::first().max_messages(1)).expect("it is served");
    let first = batches(&first);
    let mut tag = 1;
    for rolled in 1..4 {
        assert_eq!(segments(&client), rolled);
        while segments(&client) == rolled {
            append(&client, tag, 60_000);
            tag += 1;
        }
    }
    assert!(tag > 3 * (1 << 20) / 60_400, "each is filled: {tag}");
    assert_eq!(poll_all(&client, P, 0, 1 << 20).len() as u64, tag);
    let again = client.poll_blocking(P, Poll::first().max_messages(1)).expect("it is served");
    assert_eq!(batches(&again), first);
    engine.close_blocking().expect("nothing is wrong");
}

/// One cursor, which is an offset, follows the end over more than five rolls while somebody appends;
/// parked in a segment that is deleted meanwhile, it goes on at the first message that is left. It is
/// at the end where `end_offset` says so, and there only.
#[test]
fn a_cursor_follows_the_end_over_rolls_and_deletions() {
    const MESSAGES: u64 = 130;
    let dir = fresh_dir("cursor");
    let (engine, client) = with_topic(&dir, 1, small_segments());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for tag in 0..MESSAGES {
                append(&client, tag, 60_000);
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut next = 0;
        while next < MESSAGES {
            let poll = Poll::offset(next).max_bytes(150_000).max_wait(Duration::from_secs(5));
            let records = client.poll_blocking(P, poll).expect("nothing is damaged");
            match records.is_empty() {
                true => assert!(records.end_offset() == next, "only the end has nothing"),
                false => assert_eq!(records.first_offset(), Some(next), "no gap, no return"),
            }
            next = records.next_offset();
        }
        let end = client.poll_blocking(P, Poll::offset(next)).expect("it is served");
        assert!(end.is_empty() && end.end_offset() == next);
    });
    assert!(done.into_inner() && segments(&client) > 6);

    let mut next = 10;
    let look = |next| {
        let poll = Poll::offset(next).max_messages(1);
        client.poll_blocking(P, poll).expect("it is served")
    };
    assert_eq!(look(next).first_offset(), Some(10));
    let trimmed = client.delete_segments(P, 3).wait().expect("nothing is wrong");
    assert_eq!(trimmed.segments, 3);
    let start = client.watermarks_blocking(P).expect("it is open").start();
    assert!(start > next, "it was parked in what went");
    let mut seen = 0;
    while next < MESSAGES {
        let records = look(next);
        assert_eq!(records.first_offset(), Some(next.max(start)));
        next = records.next_offset();
        seen += 1;
    }
    assert_eq!(seen, MESSAGES - start);
    engine.close_blocking().expect("nothing is wrong");
}

type Files = BTreeMap<PathBuf, (SystemTime, Vec<u8>)>;

/// Every file below `dir`, and every directory, with its time.
fn everything(dir: &Path, files: &mut Files) {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).expect("time");
    files.insert(dir.to_owned(), (changed(dir), Vec::new()));
    for entry in fs::read_dir(dir).expect("it is there").flatten() {
        match entry.file_type().expect("it is known").is_dir() {
            true => everything(&entry.path(), files),
            false => {
                let bytes = fs::read(entry.path()).expect("it can be read");
                files.insert(entry.path(), (changed(&entry.path()), bytes));
            }
        }
    }
}

/// Whole batches of a partition's files, which nobody has opened for writing here.
fn scanned(dir: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for log in names(&partition_dir(dir, P), ".log") {
        let bytes = fs::read(partition_dir(dir, P).join(log)).expect("it can be read");
        let expect = Expect { next_offset: Some(found.len() as u64), ..Expect::default() };
        for step in scan(&bytes, 0, expect) {
            if let Step::Batch { batch, .. } = step {
                found.push(batch.bytes().to_vec());
            }
        }
    }
    found
}

/// Files say everything by themselves: whoever only reads needs no lock, no index and no engine, sees
/// what is durable while another process writes, and changes nothing.
#[test]
fn who_only_reads_sees_what_is_durable_and_changes_nothing() {
    let dir = fresh_dir("read_beside");
    let (engine, client) = with_topic(&dir, 1, small_segments());
    for tag in 0..40 {
        append(&client, tag, 60_000);
    }
    client.flush_blocking(P, Ack::Durable).expect("the disk works");
    let served = poll_all(&client, P, 0, 1 << 20);
    assert!(scanned(&dir) == served, "beside an engine that runs");
    // It goes on as if nobody had been there.
    append(&client, 40, 60_000);
    let stored = poll_all(&client, P, 0, 1 << 20);
    engine.close_blocking().expect("nothing is wrong");

    for index in names(&partition_dir(&dir, P), ".index") {
        fs::remove_file(partition_dir(&dir, P).join(index)).expect("it is there");
    }
    let (mut before, mut after) = (Files::new(), Files::new());
    everything(&dir, &mut before);
    assert!(scanned(&dir) == stored, "without an index");
    everything(&dir, &mut after);
    assert!(before == after);
    // What was missing is made again by the engine, who owns the files.
    let (engine, client) = reopened(&dir, 1);
    assert!(poll_all(&client, P, 0, 1 << 20) == stored);
    engine.close_blocking().expect("nothing is wrong");
}

/// An opening that takes long, here since a dying process still holds a segment, tells how far it is
/// at least once a second, and whoever listens can end it; the next one opens all the same.
#[test]
fn an_opening_that_takes_long_says_so_and_can_be_cancelled() {
    let dir = fresh_dir("progress");
    let config = TopicConfig { partitions: 3, ..TopicConfig::default() };
    let (engine, client) = with_topic(&dir, 1, config);
    append(&client, 1, 100);
    engine.close_blocking().expect("nothing is wrong");
    let log = partition_dir(&dir, P).join("00000000000000000000.log");
    let held = fs::File::open(log).expect("it is there");
    flock(&held, FlockOperation::LockExclusive).expect("nobody has it");

    let begun = Instant::now();
    let cancelled = builder(&dir, 1).on_progress(|_| ControlFlow::Break(())).open().map(drop);
    assert!(matches!(cancelled, Err(OpenError::Cancelled)), "{cancelled:?}");
    assert!(begun.elapsed() < Duration::from_secs(9), "not only when its patience had ended");

    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static LAST: Mutex<Option<(usize, usize)>> = Mutex::new(None);
    let held = Mutex::new(Some(held));
    let listener = move |progress: corelog::stats::OpenProgress| {
        *LAST.lock().expect("no panic") = Some((progress.done, progress.partitions));
        if CALLS.fetch_add(1, Ordering::Relaxed) == 2 {
            assert!(progress.elapsed < Duration::from_secs(3), "{progress:?}");
            // The last descriptor of the file: the lock goes with it.
            drop(held.lock().expect("no panic").take());
        }
        ControlFlow::Continue(())
    };
    let engine = builder(&dir, 1).on_progress(listener).open().expect("the lock went");
    assert_eq!(*LAST.lock().expect("no panic"), Some((0, 3)), "the first one held all up");
    assert!(engine.opened().not_clean.is_empty(), "{:?}", engine.opened());
    assert_eq!(poll_all(&engine.client(), P, 0, 1 << 20).len(), 1);
    engine.close_blocking().expect("nothing is wrong");
}
