//! A log made by hand, cut, damaged and reordered.

use corelog_format::{UnverifiedBatch, admit};

use super::*;
use crate::content::{Outbox, Sizes};

const ROUND: u32 = 2;
const PARTITION: u32 = 5;

/// A batch as the log stores it.
fn stored(content: &Content, producer: u16, sequence: u32, base_offset: u64) -> Vec<u8> {
    let id = BatchId { round: ROUND, producer, partition: PARTITION, sequence };
    let batch = Outbox::new(content).batch(id);
    let time = 1_000_000 + base_offset;
    let header = admit(&batch).unwrap().stamp(u64::from(PARTITION), base_offset, time);
    [&header, &batch[BATCH_HEADER_LEN..]].concat()
}

fn messages(batch: &[u8]) -> u32 {
    BatchHeader::parse(batch).unwrap().message_count
}

/// Three batches of two producers, back to back.
fn log(content: &Content) -> Vec<u8> {
    let order = [(0, 0), (1, 0), (0, 1)];
    let mut base_offset = 0;
    let batches = order.map(|(producer, sequence)| {
        let stored = stored(content, producer, sequence, base_offset);
        base_offset += u64::from(messages(&stored));
        stored
    });
    batches.concat()
}

fn check(content: &Content, pieces: &[&[u8]]) -> Result<(), Mismatch> {
    let mut checker = Checker::new(content, ROUND, PARTITION, 2);
    for piece in pieces {
        checker.feed(piece)?;
    }
    checker.end_reply(checker.next_offset())?;
    checker.end_log(&[2, 1])
}

#[test]
fn a_good_log_passes_however_its_views_are_cut() {
    for (messages, payload) in [(1, 0), (2, 7), (9, 40)] {
        let content = Content::new(1, messages, payload).unwrap();
        let log = log(&content);
        check(&content, &[&log]).unwrap();
        let bytes: Vec<&[u8]> = log.chunks(1).collect();
        check(&content, &bytes).unwrap();
        for cut in 1..log.len() {
            let (front, back) = log.split_at(cut);
            check(&content, &[front, back]).unwrap();
        }
    }
}

#[test]
fn batches_of_drawn_sizes_pass_too_and_every_byte_of_them_is_checked() {
    let content =
        Content::of(1, &Sizes { headers: 1, messages: 1..6, payload: 0..30, ..Sizes::fixed(1, 1) })
            .unwrap();
    let log = log(&content);
    check(&content, &[&log]).unwrap();
    for at in 0..log.len() {
        check(&content, &[&log[..at], &log[at..]]).unwrap();
        let mut damaged = log.clone();
        damaged[at] ^= 1;
        assert!(check(&content, &[&damaged]).is_err(), "byte {at} of {}", log.len());
    }
}

#[test]
fn a_log_whose_beginning_was_deleted_passes_from_any_batch_on() {
    let content = Content::new(1, 2, 7).unwrap();
    let log = log(&content);
    let batch = log.len() / 3;
    for deleted in 0..3 {
        let mut checker = Checker::retained(&content, ROUND, PARTITION, 2).noting();
        checker.feed(&log[deleted * batch..]).unwrap();
        assert_eq!((checker.next_offset(), checker.take_whole().len()), (6, 3 - deleted));
        checker.end_log(&[2, 1]).unwrap();
        assert!(checker.end_log(&[3, 1]).is_err());
    }
    // From the second batch on, one is left out in the middle.
    let mut checker = Checker::retained(&content, ROUND, PARTITION, 2);
    checker.feed(&log[..batch]).unwrap();
    assert!(checker.feed(&log[2 * batch..]).is_err());
    // Unless it was deleted while the log was read; what comes then must still be right.
    let mut checker = Checker::retained(&content, ROUND, PARTITION, 2).jumping();
    checker.feed(&log[..batch]).unwrap();
    checker.feed(&log[2 * batch..]).unwrap();
    checker.end_log(&[2, 1]).unwrap();
    let mut checker = Checker::retained(&content, ROUND, PARTITION, 2).jumping();
    checker.feed(&log[..batch]).unwrap();
    // The producer's second batch in the place of its first one is no deletion.
    let early = stored(&content, 0, 2, 2);
    assert!(matches!(checker.feed(&early).unwrap_err().what, What::Order { .. }));
    // An empty log is right only where nothing was appended.
    let checker = Checker::retained(&content, ROUND, PARTITION, 1);
    assert!(checker.end_log(&[0]).is_ok() && checker.end_log(&[1]).is_err());
}

#[test]
fn after_a_crash_more_may_be_there_than_was_acknowledged_and_never_less() {
    let content = Content::new(1, 2, 7).unwrap();
    let mut checker = Checker::new(&content, ROUND, PARTITION, 2);
    checker.feed(&log(&content)).unwrap();
    assert_eq!(checker.end_crashed(&[1, 1]), Ok(()));
    assert_eq!(checker.end_crashed(&[2, 0]), Ok(()));
    let lost = checker.end_crashed(&[2, 2]).unwrap_err();
    assert_eq!(lost.what, What::Lost { producer: 1, acked: 2, found: 1 });
    // The next life goes on behind what was found.
    let (offset, sequences) = (checker.next_offset(), checker.sequences());
    let mut resumed = Checker::resumed(&content, ROUND, PARTITION, offset, &sequences);
    resumed.feed(&stored(&content, 1, 1, 6)).unwrap();
    assert_eq!(resumed.end_log(&[2, 2]), Ok(()));
}

#[test]
fn every_byte_is_checked() {
    for (messages, payload) in [(1, 0), (3, 11)] {
        let content = Content::new(1, messages, payload).unwrap();
        let log = log(&content);
        for at in 0..log.len() {
            let mut damaged = log.clone();
            damaged[at] ^= 0x10;
            assert!(check(&content, &[&damaged]).is_err(), "byte {at} of {}", log.len());
        }
    }
}

#[test]
fn sliced_batches_continue_where_the_poll_before_ended() {
    // Frames of different lengths: a slice in the middle has a length of its own.
    let sizes = Sizes { payload: 0..60, ..Sizes::fixed(5, 1) };
    let content = Content::of(1, &sizes).unwrap();
    let batch = stored(&content, 0, 0, 0);
    let batch = UnverifiedBatch::new(&batch).unwrap().verify().unwrap();
    let slice = |frames: std::ops::Range<u32>| {
        let slice = batch.slice(frames).unwrap();
        [&slice.header, &batch.bytes()[slice.frames]].concat()
    };
    let run = |parts: &[Vec<u8>]| {
        let mut checker = Checker::new(&content, ROUND, PARTITION, 1);
        for part in parts {
            checker.feed(part)?;
            checker.end_reply(checker.next_offset())?;
        }
        checker.end_log(&[1]).map(|()| checker.next_offset())
    };
    assert_eq!(run(&[slice(0..2), slice(2..3), slice(3..5)]), Ok(5));
    // A slice that repeats or leaves out a message is not what comes next.
    for wrong in [1..3, 3..4, 0..2] {
        let error = run(&[slice(0..2), slice(wrong.clone())]).unwrap_err();
        assert_eq!(error.offset, 2, "{wrong:?}: {error}");
    }
}

#[test]
fn batches_that_are_not_due_are_named() {
    let content = Content::new(1, 2, 8).unwrap();
    let first = stored(&content, 0, 0, 0);
    let again = stored(&content, 0, 0, 2);
    let skipped = stored(&content, 0, 2, 2);
    for (next, found) in [(again, 0), (skipped, 2)] {
        let error = check(&content, &[&first, &next]).unwrap_err();
        assert_eq!(error.what, What::Order { producer: 0, expected: 1, found });
        assert_eq!(error.offset, 2);
    }
    // Another round's batch at the right place: a file that was not new.
    let mut checker = Checker::new(&content, ROUND + 1, PARTITION, 2);
    assert!(matches!(checker.feed(&first).unwrap_err().what, What::Stranger { .. }));
    // A producer that is not there.
    let mut checker = Checker::new(&content, ROUND, PARTITION, 0);
    assert!(matches!(checker.feed(&first).unwrap_err().what, What::Stranger { .. }));
}

#[test]
fn missing_messages_and_cut_replies_are_errors() {
    let content = Content::new(1, 2, 8).unwrap();
    let log = log(&content);
    let error = check(&content, &[&log[..log.len() / 3]]).unwrap_err();
    assert_eq!(error.what, What::Missing { appended: 6 });
    let error = check(&content, &[&log[..log.len() - 1]]).unwrap_err();
    assert_eq!((error.what, error.offset), (What::Cut, 4));
    let mut checker = Checker::new(&content, ROUND, PARTITION, 2);
    checker.feed(&log).unwrap();
    assert_eq!(checker.end_reply(5).unwrap_err().what, What::NextOffset { said: 5 });
    assert_eq!(checker.end_reply(6), Ok(()));
}

#[test]
fn a_difference_is_named_by_its_byte() {
    let content = Content::new(1, 2, 8).unwrap();
    let mut log = log(&content);
    let at = stored(&content, 0, 0, 0).len() + BATCH_HEADER_LEN + 70;
    let expected = log[at];
    log[at] = !expected;
    // Others behind it, in the same frame and in the next batch, are not the first.
    for later in [at + 1, at + 20, at + BATCH_HEADER_LEN + 60] {
        log[later] ^= 1;
    }
    let error = check(&content, &[&log]).unwrap_err();
    assert_eq!(error.what, What::Frame { position: 70, expected, found: !expected });
    assert_eq!(error.offset, 2);
    assert!(error.to_string().starts_with("partition 5, offset 2: byte 70 of"), "{error}");
}
