//! One partition's log: appended, rolled, polled by every strategy, closed, opened again.

use corelog::{Ack, Client, Poll, TopicConfig};
use corelog_format::{
    INDEX_ENTRY_LEN, IndexEntry, UnverifiedBatch, index_file_name, segment_file_name,
};

use crate::support::{
    P, Sent, assert_same, batch, batches, fresh_dir, names, partition_dir, poll_all, reopened,
    small_segments, with_topic,
};

/// 60 batches of 1 to 5 messages, 3 KB to 150 KB each: three segments of 1 MiB.
fn append_some(client: &Client) -> Vec<Sent> {
    (0..60)
        .map(|tag| {
            let bytes = batch(tag, 1 + tag as u32 % 5, 3_000 + tag as usize * 450);
            let ack = [Ack::Appended, Ack::Written, Ack::Durable][tag as usize % 3];
            let appended = client.append_blocking(P, bytes.clone(), ack).expect("it fits");
            Sent { bytes, appended }
        })
        .collect()
}

fn first_offset(client: &Client, poll: Poll) -> Option<u64> {
    client.poll_blocking(P, poll).expect("nothing is damaged").first_offset()
}

/// Every way to begin a poll, against what was sent.
fn assert_strategies(client: &Client, sent: &[Sent]) {
    let end = client.watermarks_blocking(P).expect("it is open").appended();
    let last = sent.last().expect("there is one").appended;
    assert_eq!(end, last.base_offset + u64::from(last.message_count));
    assert_eq!(first_offset(client, Poll::first()), Some(0));
    assert_eq!(first_offset(client, Poll::last(1)), Some(end - 1));
    assert_eq!(first_offset(client, Poll::last(7)), Some(end - 7));
    assert_eq!(first_offset(client, Poll::last(u32::MAX)), Some(0));
    assert_eq!(first_offset(client, Poll::offset(end)), None);
    assert_eq!(first_offset(client, Poll::offset(u64::MAX)), None);
    for (this, next) in sent.iter().zip(sent.iter().skip(1)) {
        let (this, next) = (this.appended, next.appended);
        assert!(this.base_timestamp < next.base_timestamp, "time strictly increases");
        let at = first_offset(client, Poll::timestamp(this.base_timestamp));
        assert_eq!(at, Some(this.base_offset), "the batch of exactly that time");
        let behind = first_offset(client, Poll::timestamp(this.base_timestamp + 1));
        assert_eq!(behind, Some(next.base_offset), "the first one at or after it");
    }
    assert_eq!(first_offset(client, Poll::timestamp(0)), Some(0));
    assert_eq!(first_offset(client, Poll::timestamp(last.base_timestamp + 1)), None);
    // Inside of a batch: a header of its own, and only the frames that were asked for.
    let whole = sent.iter().find(|sent| sent.appended.message_count == 5).expect("there is one");
    let middle = Poll::offset(whole.appended.base_offset + 2).max_messages(2);
    let records = client.poll_blocking(P, middle).expect("nothing is damaged");
    assert_eq!(records.messages(), 2);
    assert_eq!(records.next_offset(), whole.appended.base_offset + 4);
    let sliced = &batches(&records)[0];
    let (sliced, whole) = (
        UnverifiedBatch::new(sliced).and_then(UnverifiedBatch::verify).expect("it is whole"),
        UnverifiedBatch::new(&whole.bytes).and_then(UnverifiedBatch::verify).expect("it was sent"),
    );
    let frames: Vec<_> = whole.frames().skip(2).take(2).map(|frame| frame.bytes()).collect();
    assert_eq!(sliced.frames().map(|frame| frame.bytes()).collect::<Vec<_>>(), frames);
}

#[test]
fn everything_comes_back_by_every_strategy_before_and_after_a_reopen() {
    let dir = fresh_dir("log");
    let (engine, client) = with_topic(&dir, 1, small_segments());
    let mut sent = append_some(&client);
    assert_strategies(&client, &sent);
    assert_same(P, &sent, &poll_all(&client, P, 0, 200_000));
    client.flush_blocking(P, Ack::Durable).expect("the disk works");
    let marks = client.watermarks_blocking(P).expect("it is open");
    assert_eq!(marks.durable(), marks.appended());
    engine.close_blocking().expect("nothing is wrong");

    let (engine, client) = reopened(&dir, 1);
    assert_strategies(&client, &sent);
    assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
    sent.extend(append_again(&client, &sent));
    assert_same(P, &sent, &poll_all(&client, P, 0, 1));
    engine.close_blocking().expect("nothing is wrong");
}

fn append_again(client: &Client, before: &[Sent]) -> Vec<Sent> {
    let last = before.last().expect("there is one").appended;
    let bytes = batch(1_000, 2, 10);
    let appended = client.append_blocking(P, bytes.clone(), Ack::Written).expect("it fits");
    assert_eq!(appended.base_offset, last.base_offset + u64::from(last.message_count));
    assert!(appended.base_timestamp > last.base_timestamp);
    vec![Sent { bytes, appended }]
}

/// What the reference server's files look like: names of 20 digits, batches back to back and
/// nothing else, index entries of 24 bytes that point to the starts of batches.
#[test]
fn closed_files_keep_the_rules_of_the_format() {
    let dir = fresh_dir("format_rules");
    let (engine, client) = with_topic(&dir, 1, small_segments());
    let sent = append_some(&client);
    engine.close_blocking().expect("nothing is wrong");
    let dir = partition_dir(&dir, P);
    let logs = names(&dir, ".log");
    assert!(logs.len() >= 3, "{logs:?}");
    let (mut number, mut entries) = (0, 0);
    for log in &logs {
        let first = sent[number].appended.base_offset;
        assert_eq!(*log, segment_file_name(first));
        let bytes = std::fs::read(dir.join(log)).expect("it can be read");
        let (mut rest, mut starts) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let position = (bytes.len() - rest.len()) as u64;
            let (batch, behind) = UnverifiedBatch::split_first(rest).expect("batches only");
            let batch = batch.verify().expect("whole batches only");
            let (base_offset, base_timestamp) =
                (batch.header().base_offset, batch.header().base_timestamp);
            assert_eq!(base_offset, sent[number].appended.base_offset);
            starts.push(IndexEntry { base_offset, base_timestamp, position });
            (rest, number) = (behind, number + 1);
        }
        let index = std::fs::read(dir.join(index_file_name(first))).expect("it can be read");
        assert_eq!(index.len() % INDEX_ENTRY_LEN, 0, "{log}");
        let (index, _) = index.as_chunks::<INDEX_ENTRY_LEN>();
        for entry in index.iter().map(IndexEntry::decode) {
            assert!(starts.contains(&entry), "{log}: {entry:?} is no batch's start");
            entries += 1;
        }
    }
    assert_eq!(number, sent.len(), "every batch is in a file, once");
    assert!(entries > logs.len(), "{entries} entries");
}

#[test]
fn a_topic_that_enforces_fsync_answers_only_what_is_durable() {
    let dir = fresh_dir("enforce_fsync");
    let config = TopicConfig { enforce_fsync: true, ..small_segments() };
    let (engine, client) = with_topic(&dir, 1, config);
    for tag in 0..40 {
        let bytes = batch(tag, 3, 12_000);
        let appended = client.append_blocking(P, bytes, Ack::Appended).expect("it fits");
        let marks = client.watermarks_blocking(P).expect("it is open");
        let end = appended.base_offset + u64::from(appended.message_count);
        assert!(marks.durable() >= end, "{marks:?}");
        assert_eq!(first_offset(&client, Poll::offset(end)), None, "polls end at durable");
    }
    engine.close_blocking().expect("nothing is wrong");
}

/// The largest batch there is goes in, comes out of memory and off the disk.
#[test]
fn the_largest_batch_comes_back() {
    let dir = fresh_dir("largest");
    let (engine, client) = with_topic(&dir, 1, small_segments());
    let frame = (64 << 20) - 256 - 48;
    let largest = batch(1, 1, frame);
    assert_eq!(largest.len(), 64 << 20);
    let appended = client.append_blocking(P, largest.clone(), Ack::Written).expect("it fits");
    let mut sent = vec![Sent { bytes: largest, appended }];
    sent.extend(append_again(&client, &sent));
    assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
    engine.close_blocking().expect("nothing is wrong");
    let (engine, client) = reopened(&dir, 1);
    assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
    engine.close_blocking().expect("nothing is wrong");
}
