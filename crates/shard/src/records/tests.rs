//! Records over slices cut anywhere: the same batches come out, and copies are made only where a
//! batch straddles.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use corelog_format::{BatchBuilder, Message};
use corelog_storage::Served;

use super::*;

/// A producer batch of `messages` messages of `bytes` bytes each.
fn batch(messages: u128, bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for id in 0..messages {
        builder.push(Message::new(&vec![id as u8; bytes]).id(id)).unwrap();
    }
    builder.finish().unwrap()
}

fn records(slices: Vec<Bytes>) -> Records {
    let pieces = slices.into_iter().map(Piece::<Vec<u8>>::Copied).collect();
    let served = Served::FromMemory;
    let polled = Polled {
        pieces,
        messages: 9,
        first_offset: Some(4),
        next_offset: 13,
        end_offset: 20,
        served,
    };
    Records::lend(polled, &CopyOut)
}

/// Memory of a shard; gone when its count says so.
struct Buffer(Arc<Vec<u8>>);

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Counts what it lends.
struct Counting(Rc<Cell<usize>>);

impl Lend<Vec<u8>> for Counting {
    fn lend(&self, bytes: Vec<u8>, range: Range<usize>) -> Bytes {
        self.0.set(self.0.get() + 1);
        Bytes::from(bytes).slice(range)
    }
}

#[test]
fn batches_come_out_whole_wherever_the_slices_are_cut() {
    let batches = [batch(1, 0), batch(3, 100), batch(2, 7)];
    let all: Vec<u8> = batches.concat();
    for first in 0..=all.len() {
        for second in [first, first + 1, first + 255, first + 256, all.len()] {
            let second = second.clamp(first, all.len());
            let cut = [&all[..first], &all[first..second], &all[second..]];
            let records = records(cut.map(Bytes::copy_from_slice).to_vec());
            assert_eq!(records.len(), all.len());
            let mut start = 0;
            let mut found = records.batches();
            for expected in &batches {
                let end = start + expected.len();
                let straddles = [first, second].iter().any(|cut| (start + 1..end).contains(cut));
                let batch = found.next().unwrap().unwrap();
                assert_eq!(batch.bytes(), &expected[..], "cut at {first} and {second}");
                assert_eq!(batch.is_copied(), straddles, "cut at {first} and {second}");
                assert_eq!(batch.header().batch_length, expected.len() as u64);
                batch.verify().unwrap();
                assert_eq!(
                    batch.open().unwrap().frames().len(),
                    batch.verify().unwrap().frames().len()
                );
                start = end;
            }
            assert!(found.next().is_none());
        }
    }
}

#[test]
fn pieces_become_slices_and_only_views_are_lent() {
    let bytes = batch(1, 10);
    let mut header = Box::new([0; BATCH_HEADER_LEN]);
    header.copy_from_slice(&bytes[..BATCH_HEADER_LEN]);
    let mut buffer = vec![0xEE; 3];
    buffer.extend_from_slice(&bytes[BATCH_HEADER_LEN..]);
    let range = 3..buffer.len();
    let pieces = vec![
        Piece::Header(header),
        Piece::View { bytes: buffer, range },
        Piece::Copied(Bytes::new()),
        Piece::Copied(Bytes::from(bytes.clone())),
    ];
    let lent = Rc::new(Cell::new(0));
    let served = Served::FromMemory;
    let polled = Polled {
        pieces,
        messages: 2,
        first_offset: Some(0),
        next_offset: 2,
        end_offset: 2,
        served,
    };
    let records = Records::lend(polled, &Counting(Rc::clone(&lent)));
    assert_eq!(lent.get(), 1);
    assert_eq!(records.slices().len(), 3, "an empty piece is no slice");
    let found: Vec<_> = records.batches().map(Result::unwrap).collect();
    assert_eq!((found[0].bytes(), found[1].bytes()), (&bytes[..], &bytes[..]));
    assert!(found[0].is_copied() && !found[1].is_copied());
    assert_eq!(records.into_slices().concat(), [&bytes[..], &bytes[..]].concat());
}

#[test]
fn owned_records_are_one_slice_and_keep_their_numbers() {
    let all = [batch(2, 5), batch(1, 9)].concat();
    let buffer = Arc::new(all.clone());
    let lent = Bytes::from_owner(Buffer(Arc::clone(&buffer)));
    let records = records(vec![lent.slice(..300), lent.slice(300..)]);
    drop(lent);
    let owned = records.to_owned();
    assert_eq!(Arc::strong_count(&buffer), 2);
    drop(records);
    assert_eq!(Arc::strong_count(&buffer), 1, "the shard's memory is not held any more");
    assert_eq!(owned.slices().concat(), all);
    assert_eq!(owned.slices().len(), 1);
    assert_eq!((owned.messages(), owned.first_offset()), (9, Some(4)));
    assert_eq!((owned.next_offset(), owned.end_offset()), (13, 20));
    assert!(owned.batches().all(|batch| !batch.unwrap().is_copied()));
}

#[test]
fn nothing_is_empty() {
    let records = records(vec![Bytes::new()]);
    assert!(records.is_empty() && records.slices().is_empty());
    assert_eq!((records.len(), records.batches().count()), (0, 0));
    assert!(records.to_owned().is_empty());
}

#[test]
fn bytes_that_are_no_batch_end_the_iterator_with_their_position() {
    let mut all = [batch(1, 4), batch(1, 4)].concat();
    let second = all.len() / 2;
    for (at, len) in [(second + 32, all.len()), (0, second + 300), (0, second + 100)] {
        let mut bytes = all[..len].to_vec();
        if at > 0 {
            bytes[at] = 0xFF;
        }
        let records = records(vec![Bytes::from(bytes)]);
        let mut found = records.batches();
        found.next().unwrap().unwrap();
        let error = found.next().unwrap().unwrap_err();
        assert!(error.at >= second as u64, "{error}");
        assert!(found.next().is_none());
    }
    all[second + 256 + 48] ^= 1;
    let records = records(vec![Bytes::from(all)]);
    let flipped = records.batches().nth(1).unwrap().unwrap();
    flipped.open().unwrap();
    flipped.verify().unwrap_err();
}
