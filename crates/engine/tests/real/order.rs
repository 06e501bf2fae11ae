//! What a user expects without reading: one producer's order, and no gap for a reader.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use corelog::calls::Call;
use corelog::error::AppendError;
use corelog::{Ack, Appended, Poll, TopicConfig};

use crate::support::{
    P, Sent, assert_same, batch, builder, fresh_dir, poll_all, small, small_segments, with_topic,
};

/// Many appends on their way at a time, without waiting for one: offsets follow the calls.
#[test]
fn pipelined_appends_keep_their_order() {
    let dir = fresh_dir("pipelined");
    let (engine, client) = with_topic(&dir, 2, small_segments());
    let bytes: Vec<_> = (0..1_000).map(|tag| batch(tag, 2, 1_000)).collect();
    let call = |bytes: &bytes::Bytes| client.append(P, bytes.clone(), Ack::Written);
    let calls: Vec<_> = bytes.iter().map(call).collect();
    let answer = |(bytes, call): (&bytes::Bytes, Call<Appended, AppendError>)| Sent {
        bytes: bytes.clone(),
        appended: call.wait().expect("it fits"),
    };
    let sent: Vec<_> = bytes.iter().zip(calls).map(answer).collect();
    for (number, sent) in sent.iter().enumerate() {
        assert_eq!(sent.appended.base_offset, 2 * number as u64);
    }
    assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
    engine.close_blocking().expect("nothing is wrong");
}

/// With hardly any room the engine answers `Busy` often; a producer keeps its order all the same.
#[test]
fn a_producer_keeps_its_order_across_busy() {
    let dir = fresh_dir("across_busy");
    let mut limits = small();
    limits.appends_in_flight = 4;
    let engine = builder(&dir, 1).limits(limits).open().expect("a fresh directory opens");
    let client = engine.client();
    crate::support::create_topic(&client, TopicConfig::default());
    let mut producer = client.producer(P);
    let mut flying: VecDeque<Call<Appended, AppendError>> = VecDeque::new();
    let (mut busy, mut offsets) = (0, Vec::new());
    for tag in 0..500 {
        let mut call = producer.append(batch(tag, 1, 300), Ack::Written);
        while let Some(AppendError::Busy) = call.refusal() {
            busy += 1;
            let out_of_turn = producer.append(batch(9_999, 1, 10), Ack::Written);
            assert!(matches!(out_of_turn.refusal(), Some(AppendError::OutOfTurn)));
            if let Some(oldest) = flying.pop_front() {
                offsets.push(oldest.wait().expect("it fits").base_offset);
            }
            call = producer.retry().expect("the refused batch is kept");
        }
        flying.push_back(call);
    }
    offsets.extend(flying.into_iter().map(|call| call.wait().expect("it fits").base_offset));
    assert!(busy > 0, "the limit was never met");
    assert_eq!(offsets, (0..500).collect::<Vec<_>>());
    let stored = poll_all(&client, P, 0, 1 << 20);
    for (tag, stored) in (0..500).zip(&stored) {
        assert!(stored[256..] == batch(tag, 1, 300)[256..], "batch {tag}");
    }
    engine.close_blocking().expect("nothing is wrong");
}

/// Sixteen threads append a thousand batches each to one partition, with some on their way at a
/// time: each offset is given once, and the files hold what was answered, end to end.
#[test]
fn sixteen_appenders_get_each_offset_once() {
    const THREADS: u64 = 16;
    const EACH: u64 = 1_000;
    let dir = fresh_dir("sixteen");
    let (engine, client) = with_topic(&dir, 2, small_segments());
    let mut answers: Vec<(u64, u32, u64)> = std::thread::scope(|scope| {
        let append_all = |thread: u64, client: corelog::Client| {
            let mut flying = VecDeque::new();
            let mut answers = Vec::new();
            for nth in 0..EACH {
                let tag = thread * EACH + nth;
                let ack = [Ack::Appended, Ack::Written, Ack::Durable][(tag % 3) as usize];
                let bytes = batch(tag, 1 + (tag % 4) as u32, 100 + tag as usize % 900);
                flying.push_back((tag, client.append(P, bytes, ack)));
                while flying.len() > (tag % 5) as usize {
                    let (tag, call) = flying.pop_front().expect("there is one");
                    let Appended { base_offset, message_count, .. } = call.wait().expect("it fits");
                    answers.push((base_offset, message_count, tag));
                }
            }
            for (tag, call) in flying {
                let Appended { base_offset, message_count, .. } = call.wait().expect("it fits");
                answers.push((base_offset, message_count, tag));
            }
            assert!(answers.is_sorted(), "thread {thread}: in the order of its calls");
            answers
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let client = client.clone();
                scope.spawn(move || append_all(thread, client))
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    answers.sort_unstable();
    let mut next = 0;
    for (base_offset, message_count, tag) in &answers {
        assert_eq!(*base_offset, next, "batch {tag}");
        next += u64::from(*message_count);
    }
    assert_eq!(answers.len() as u64, THREADS * EACH);
    assert_eq!(client.watermarks_blocking(P).expect("it is open").appended(), next);
    engine.close_blocking().expect("nothing is wrong");

    // The files, as the tool that inspects them sees them.
    let dir = crate::support::partition_dir(&dir, P);
    let mut stored = answers.iter();
    for log in crate::support::names(&dir, ".log") {
        let bytes = std::fs::read(dir.join(&log)).expect("it can be read");
        let mut end = 0;
        for step in corelog_format::scan(&bytes, 0, corelog_format::Expect::default()) {
            match step {
                corelog_format::Step::Batch { at, batch: found, .. } => {
                    let (base_offset, message_count, tag) = stored.next().expect("no more");
                    let header = found.header();
                    assert_eq!(header.base_offset, *base_offset, "{log}");
                    let len = 100 + *tag as usize % 900;
                    assert!(found.bytes()[256..] == batch(*tag, *message_count, len)[256..]);
                    end = at + found.bytes().len() as u64;
                }
                corelog_format::Step::End { at } => assert_eq!(at, bytes.len() as u64, "{log}"),
                other => panic!("{log}: {other:?}"),
            }
        }
        assert_eq!(end, bytes.len() as u64, "{log} ends with its last batch");
    }
    assert_eq!(stored.count(), 0, "every batch is in a file, once");
}

/// Readers at the end of a log that two producers write to: every poll continues where the last
/// one ended, over rolls, from memory and from the disk.
#[test]
fn readers_see_no_gap_while_producers_append() {
    let dir = fresh_dir("no_gap");
    let (engine, client) = with_topic(&dir, 2, small_segments());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let producers: Vec<_> = (0..2)
            .map(|producer| {
                let client = client.clone();
                scope.spawn(move || {
                    let mut before = None;
                    for tag in 0..300 {
                        let bytes = batch(producer << 32 | tag, 1 + tag as u32 % 3, 8_000);
                        let appended = client.append_blocking(P, bytes, Ack::Appended);
                        let offset = Some(appended.expect("it fits").base_offset);
                        assert!(offset > before, "a producer's own appends are in order");
                        before = offset;
                    }
                })
            })
            .collect();
        for start in [Poll::first(), Poll::offset(0).max_bytes(30_000)] {
            let (client, done) = (client.clone(), &done);
            scope.spawn(move || {
                let (mut next, mut tags) = (0, [0, 0]);
                loop {
                    let last_round = done.load(Ordering::Acquire);
                    let poll =
                        if next == 0 { start } else { Poll::offset(next).max_bytes(100_000) };
                    let records = client.poll_blocking(P, poll).expect("nothing is damaged");
                    if records.is_empty() {
                        if last_round {
                            break;
                        }
                        continue;
                    }
                    assert_eq!(records.first_offset(), Some(next), "a gap");
                    next = records.next_offset();
                    for batch in records.batches() {
                        let batch = batch.expect("a header");
                        let batch = batch.verify().expect("whole");
                        let id = batch.frames().next().expect("a frame").id() >> 32;
                        let (producer, tag) = ((id >> 32) as usize, id as u32);
                        assert_eq!(tag, tags[producer], "producer {producer}'s batches in order");
                        tags[producer] += 1;
                    }
                }
                assert_eq!(tags, [300, 300]);
            });
        }
        producers.into_iter().for_each(|producer| producer.join().expect("no panic"));
        done.store(true, Ordering::Release);
    });
    engine.close_blocking().expect("nothing is wrong");
}
