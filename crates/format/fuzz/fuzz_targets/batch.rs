//! Batches, raw and repaired: the strictnesses imply each other in order, admission agrees with
//! verification, and what passed can be taken apart and put together again.
#![no_main]

use corelog_format::{Batch, BatchHeader, FormatError, UnverifiedBatch, admit};
use corelog_format_fuzz::{Repair, repair};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    judge(input, 0, 0);
    if let Some((&[flags, delta, from, to], batch)) = input.split_first_chunk::<4>() {
        let mut batch = batch.to_vec();
        repair(&mut batch, Repair::from([flags, delta]));
        judge(&batch, u32::from(from), u32::from(to));
    }
});

fn judge(bytes: &[u8], from: u32, to: u32) {
    let read = || UnverifiedBatch::new(bytes);
    let strict = read().and_then(UnverifiedBatch::verify);
    let stored = read().and_then(UnverifiedBatch::verify_stored);
    let layout = read().and_then(UnverifiedBatch::verify_layout);
    let admitted = admit(bytes);
    let errors = [strict.err(), stored.err(), layout.err(), admitted.as_ref().err().copied()];
    errors.into_iter().flatten().for_each(|error| inside(&error, bytes));

    assert!(strict.is_err() || stored.is_ok(), "stored is weaker than strict");
    assert!(stored.is_err() || layout.is_ok(), "layout is weaker than stored");
    let as_sent = strict.is_ok_and(|batch| batch.deltas_are_index());
    assert_eq!(admitted.is_ok(), as_sent, "admission is strict, from delta 0");
    if let Ok(batch) = stored {
        let in_order = batch
            .frames()
            .enumerate()
            .all(|(index, frame)| Some(frame.offset_delta()) == nth_delta(&batch, index));
        assert_eq!(strict.is_ok(), in_order && batch.user_headers_well_formed());
    }
    if let Ok(batch) = layout {
        tiles(&batch, bytes);
    }
    if let Ok(batch) = strict {
        slices(&batch, from, to);
    }
    if let Ok(mut admitted) = admitted {
        assert_eq!(admitted.len(), bytes.len());
        let stamped = admitted.stamp(1, 1 << 40, u64::MAX);
        let whole = [&stamped[..], &bytes[256..]].concat();
        let batch = UnverifiedBatch::new(&whole).and_then(UnverifiedBatch::verify);
        let header = *batch.expect("a stamped batch verifies").header();
        assert_eq!((header.partition_id, header.base_offset), (1, 1 << 40));
        assert_eq!(header.base_timestamp, u64::MAX);
    }
}

fn inside(error: &FormatError, bytes: &[u8]) {
    assert!(error.at <= bytes.len() as u64, "{error}");
}

fn nth_delta(batch: &Batch<'_>, index: usize) -> Option<u32> {
    let first = batch.frames().next()?.offset_delta();
    first.checked_add(u32::try_from(index).ok()?)
}

/// Header and frames are the batch, with nothing between them and nothing left.
fn tiles(batch: &Batch<'_>, bytes: &[u8]) {
    assert_eq!(batch.bytes(), bytes);
    assert_eq!(batch.header().encode(), bytes[..256]);
    assert_eq!(BatchHeader::parse(bytes).as_ref(), Ok(batch.header()));
    let mut at = 256;
    for frame in batch.frames() {
        let length = frame.bytes().len();
        assert_eq!(frame.bytes(), &bytes[at..at + length]);
        assert_eq!(48 + frame.payload().len() + frame.user_headers().bytes().len(), length);
        at += length;
    }
    assert_eq!(at, bytes.len());
    assert_eq!(batch.frames().len(), batch.header().message_count as usize);

    let longer = [bytes, b"next"].concat();
    let (_, rest) = UnverifiedBatch::split_first(&longer).expect("the same batch");
    assert_eq!(rest, b"next");
}

/// Any run of frames is a batch of its own, frame for frame.
fn slices(batch: &Batch<'_>, from: u32, to: u32) {
    let count = batch.header().message_count;
    let Some(slice) = batch.slice(from..to) else {
        assert!(from >= to || to > count, "{from}..{to} of {count}");
        return;
    };
    let whole = [&slice.header[..], &batch.bytes()[slice.frames.clone()]].concat();
    let part = UnverifiedBatch::new(&whole).and_then(UnverifiedBatch::verify);
    let part = part.expect("a slice verifies");
    assert_eq!(part.header().message_count, slice.message_count);
    let frames = batch.frames().skip(from as usize).take((to - from) as usize);
    assert!(part.frames().map(|frame| frame.bytes()).eq(frames.map(|frame| frame.bytes())));
    if from == 0 && to == count {
        assert_eq!(whole, batch.bytes());
    }
}
