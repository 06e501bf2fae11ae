//! What the kernel limits - descriptors, locked memory, io_uring itself - and what the engine's own
//! limits promise for the memory of the whole process. In processes of their own, as limits are.

use std::fs;
use std::path::{Path, PathBuf};

use corelog::error::OpenError;
use corelog::machine::Runtime;
use corelog::{Ack, Client, Limits, Poll, TopicConfig};

use crate::chosen;
use crate::support::{
    P, Sent, assert_same, batch, builder, create_topic, fresh_dir, in_child, names, partition_dir,
    poll_all, small, small_segments, with_topic,
};

/// What the descriptors of this process that lead below `dir` point to, sorted.
fn open_below(dir: &Path) -> Vec<PathBuf> {
    let numbers = fs::read_dir("/proc/self/fd").expect("proc is mounted").flatten();
    let targets = numbers.filter_map(|number| fs::read_link(number.path()).ok());
    let mut targets: Vec<_> = targets.filter(|target| target.starts_with(dir)).collect();
    targets.sort();
    targets
}

fn append(client: &Client, tag: u64) -> Sent {
    let bytes = batch(tag, 2, 30_000);
    let appended = client.append_blocking(P, bytes.clone(), Ack::Durable).expect("it fits");
    Sent { bytes, appended }
}

/// Soft limit of descriptors of this process.
fn limit_files(to: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let old = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(to), ..old }).expect("below the hard one");
}

/// With 64 descriptors: polls of a hundred sealed segments; more partitions than that, as those at
/// rest give their files up; a typed refusal where nobody has one to give; and with more descriptors
/// everything goes on.
#[test]
fn few_descriptors_are_refusals_and_no_end() {
    let name = "limits::few_descriptors_are_refusals_and_no_end";
    let Some(dir) = in_child(name, &["prlimit", "--nofile=64:4096"]) else { return };
    let (engine, client) = with_topic(&dir, 1, small_segments());
    let mut sent: Vec<_> = (0..2_000).map(|tag| append(&client, tag)).collect();
    assert!(names(&partition_dir(&dir, P), ".log").len() > 100, "a hundred sealed segments");
    // Far apart, so that each needs a file of its own: there are not so many descriptors, and the
    // files that are kept open for later polls give theirs back.
    let read_far_apart = |client: &Client, sent: &[Sent]| {
        for number in (0..sent.len()).step_by(19) {
            let at = sent[number].appended.base_offset;
            let records = client.poll_blocking(P, Poll::offset(at).max_messages(1));
            assert_eq!(records.expect("it is read").first_offset(), Some(at));
        }
    };
    read_far_apart(&client, &sent);
    let config = TopicConfig::default;
    for number in 0..70 {
        let created =
            client.catalog().create_topic(0, &format!("at rest {number}"), config()).wait();
        created.expect("those at rest make room");
    }
    // Whatever the engine gives up is taken by somebody else, until it has no more to give.
    let (mut taken, mut topics) = (Vec::new(), 0);
    let error = loop {
        taken.extend(std::iter::from_fn(|| fs::File::open("/dev/null").ok()));
        match client.catalog().create_topic(0, &format!("more {topics}"), config()).wait() {
            Ok(_) => topics += 1,
            Err(error) => break error,
        }
        assert!(topics < 64, "64 descriptors end somewhere");
    };
    assert!(error.to_string().contains("os error 24"), "{error}");
    // Now others have nearly all there are, and they keep theirs.
    for number in (0..sent.len()).step_by(190) {
        let at = sent[number].appended.base_offset;
        match client.poll_blocking(P, Poll::offset(at).max_messages(1)) {
            Ok(records) => assert_eq!(records.first_offset(), Some(at)),
            Err(error) => assert!(error.to_string().contains("os error 24"), "{error}"),
        }
    }
    drop(taken);
    limit_files(4_096);
    sent.extend((3_000..3_040).map(|tag| append(&client, tag)));
    assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
    let again = client.catalog().create_topic(0, "again", config()).wait();
    again.expect("there is room again");
    engine.close_blocking().expect("nothing is wrong");
    let engine = builder(&dir, 1).open().expect("it opens again");
    assert_same(P, &sent, &poll_all(&engine.client(), P, 0, 1 << 20));
    engine.close_blocking().expect("nothing is wrong");
    assert_eq!(open_below(&dir), [] as [PathBuf; 0]);
}

/// Each descriptor is closed once: after each life none is left, and none of somebody else's, who
/// gets the numbers that the engine has given back, was closed.
#[test]
fn every_descriptor_is_closed_once() {
    let Some(dir) = in_child("limits::every_descriptor_is_closed_once", &["env"]) else { return };
    let data = dir.join("data");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let files: Vec<_> = (0..3).map(|number| dir.join(format!("others-{number}"))).collect();
        fs::create_dir_all(&dir).expect("the target is writable");
        for path in &files {
            fs::write(path, path.to_str().expect("UTF-8")).expect("it is writable");
        }
        for path in files {
            let stop = &stop;
            // It opens and closes all the time, and each time what it opened must be its own.
            scope.spawn(move || {
                use std::io::Read;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut held = fs::File::open(&path).expect("it is there");
                    std::thread::yield_now();
                    let mut text = String::new();
                    held.read_to_string(&mut text).expect("nobody has closed it");
                    assert_eq!(text, path.to_str().expect("UTF-8"), "it is still our file");
                }
            });
        }
        for round in 0..6_u64 {
            let mut limits = small();
            limits.open_files = 2;
            let engine = builder(&data, 1).limits(limits).open().expect("it opens");
            let client = engine.client();
            if round == 0 {
                create_topic(&client, small_segments());
            }
            for tag in 0..60 {
                append(&client, round << 32 | tag);
            }
            // With two handles for them, files are opened and closed all the time.
            for at in (0..(round + 1) * 120).rev().step_by(7) {
                let polls = client.poll(P, Poll::offset(at).max_messages(1));
                if at % 3 == 0 {
                    drop(polls);
                } else {
                    assert_eq!(polls.wait().expect("it reads").first_offset(), Some(at));
                }
            }
            match round % 2 {
                0 => engine.close_blocking().expect("nothing is wrong"),
                _ => drop(engine),
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(open_below(&dir), [] as [PathBuf; 0], "none is left");
}

/// Too little locked memory: the message says which limit, what it is and how it is raised. The ring
/// runtime goes on without what it would lock.
#[test]
fn too_little_locked_memory_is_named() {
    let name = "limits::too_little_locked_memory_is_named";
    let Some(dir) = in_child(name, &["prlimit", "--memlock=0:0"]) else { return };
    if chosen::runtime() == Runtime::Ring {
        let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
        append(&client, 1);
        return engine.close_blocking().expect("nothing is wrong");
    }
    let error = builder(&dir, 1).open().map(drop).expect_err("it cannot start");
    assert!(matches!(error, OpenError::Start(_)), "{error:?}");
    let text = error.to_string();
    for part in ["RLIMIT_MEMLOCK is 0", "raise it", "ulimit -l"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

/// More shards than there are descriptors for: the message says what is missing and what helps.
#[test]
fn shards_that_find_no_descriptors_are_told_the_limit() {
    let name = "limits::shards_that_find_no_descriptors_are_told_the_limit";
    let Some(dir) = in_child(name, &["prlimit", "--nofile=100:100"]) else { return };
    let error = builder(&dir, 60).open().map(drop).expect_err("each needs some");
    let text = error.to_string();
    for part in ["os error 24", "RLIMIT_NOFILE", "fewer shards"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

/// The most memory that has been resident in this process, bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is told");
    let kib: u64 = line.split_whitespace().next().expect("a number").parse().expect("in kB");
    kib << 10
}

/// What the process may keep beside what its limits name: code, stacks, the catalog's cache, tables.
const BESIDE: u64 = 64 << 20;

/// The most that an engine with these limits may keep while it serves polls of that many bytes: a poll
/// of the largest batch is none of them.
fn most(limits: &Limits, poll: usize) -> u64 {
    let Limits { registered_bytes, write_bytes, cache_bytes, lease_bytes, .. } = limits;
    // A lease keeps up to twice its bytes; of a poll there is the buffer, and the caller's copy.
    let named = registered_bytes + write_bytes + cache_bytes + 2 * lease_bytes + 3 * poll;
    named as u64 + BESIDE
}

/// Data of several times what the process may keep: opened, walked from end to end, appended to, by a
/// process that never gets larger than its limits say.
#[test]
fn memory_is_bounded_by_the_limits_and_not_by_the_data() {
    let name = "limits::memory_is_bounded_by_the_limits_and_not_by_the_data";
    let Some(dir) = in_child(name, &["env"]) else { return };
    const PARTITIONS: u32 = 64;
    const TOTAL: u64 = 512 << 20;
    const POLL: usize = 4 << 20;
    let config = TopicConfig { partitions: PARTITIONS, segment_bytes: 4 << 20, ..small_segments() };
    let (engine, client) = with_topic(&dir, 1, config);
    let most = most(&small(), POLL);
    assert!(TOTAL > 3 * most, "{} MiB", most >> 20);
    let one = batch(1, 4, 60_000);
    for number in 0..(TOTAL / one.len() as u64) as u32 {
        let id = corelog::PartitionId { partition: number % PARTITIONS, ..P };
        // Nobody waits for most of them: unsaved tails of all partitions, as they come.
        let ack = if number % 64 == 63 { Ack::Written } else { Ack::Appended };
        client.append_blocking(id, one.clone(), ack).expect("it fits");
    }
    let written = peak();
    assert!(written < most, "{} MiB while {} are written", written >> 20, TOTAL >> 20);
    // Without a close: there is something to recover.
    drop((engine, client));
    let engine = builder(&dir, 1).open().expect("it opens");
    let client = engine.client();
    let mut bytes = 0;
    for partition in 0..PARTITIONS {
        let id = corelog::PartitionId { partition, ..P };
        let mut next = 0;
        loop {
            let poll = Poll::offset(next).max_bytes(POLL);
            let records = client.poll_blocking(id, poll).expect("it reads");
            if records.is_empty() {
                break;
            }
            next = records.next_offset();
            bytes += records.batches().map(|one| one.expect("whole").bytes().len()).sum::<usize>();
        }
    }
    assert!(bytes as u64 > TOTAL - (2 << 20), "{bytes} bytes came back");
    let read = peak();
    assert!(read < most, "{} MiB while {} are read", read >> 20, TOTAL >> 20);
    engine.close_blocking().expect("nothing is wrong");
    fs::remove_dir_all(&dir).expect("it is ours");
}

/// A consumer that keeps all the records it may, in buffers that occupy the most for it, can still
/// poll the largest batch: with the least of `read_bytes` that is allowed.
#[test]
fn the_largest_batch_is_served_to_who_keeps_all_leases() {
    let dir = fresh_dir("all_leases");
    let mut limits = small();
    // The least that is allowed: see `Limits::read_bytes`.
    limits.read_bytes = (128 << 20) + 2 * limits.lease_bytes;
    let less = Limits { read_bytes: limits.read_bytes - 1, ..limits.clone() };
    let error = builder(&dir, 1).limits(less).open().map(drop).expect_err("it could wait for ever");
    assert!(error.to_string().contains("twice lease_bytes"), "{error}");

    // Each a little longer than a power of two; one stands before the largest, which so begins and
    // ends inside of blocks and needs the largest buffer there is.
    let (engine, client) = with_topic(&dir, 1, small_segments());
    for tag in 0..41 {
        let bytes = batch(tag, 1, (512 << 10) + 8_192);
        client.append_blocking(P, bytes, Ack::Written).expect("it fits");
    }
    let largest = batch(99, 1, (64 << 20) - 256 - 48);
    let appended = client.append_blocking(P, largest.clone(), Ack::Durable).expect("it fits");
    let last = appended.base_offset;
    // What is polled is to come off the disk.
    engine.close_blocking().expect("nothing is wrong");
    let engine = builder(&dir, 1).limits(limits).open().expect("it opens again");
    let client = engine.client();
    let copied = || client.stats_blocking().expect("it is open").memory[0].copied;
    let mut kept = Vec::new();
    for offset in (0..41).cycle().take(200) {
        let records = client.poll_blocking(P, Poll::offset(offset).max_messages(1));
        kept.push(records.expect("it is there"));
        if copied() > 4 {
            break;
        }
    }
    assert!(copied() > 4, "all leases are out");
    let (done, answer) = std::sync::mpsc::channel();
    let poll = client.poll(P, Poll::offset(last));
    std::thread::spawn(move || drop(done.send(poll.wait())));
    let served = answer.recv_timeout(std::time::Duration::from_secs(60));
    let records = served.expect("it waits for nobody's leases").expect("it is there");
    let stored = crate::support::batches(&records);
    assert!(stored[0][256..] == largest[256..], "the largest batch came back");
    drop((kept, records));
    engine.close_blocking().expect("nothing is wrong");
    fs::remove_dir_all(&dir).expect("it is ours");
}
