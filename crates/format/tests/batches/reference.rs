//! Held against the reference implementation: valid batches, changed, with the checksums made right
//! again so that the checks behind them are reached. Both accept or both refuse, but for what that
//! crate lets through: no messages, any `offset_delta`, user headers it does not parse, and bytes
//! after the batch.

use corelog_format::{Batch, FormatError, UnverifiedBatch};
use iggy_binary_protocol::batch::{
    BatchIntegrity, BatchRef, decode_batch_slice, decode_batch_slice_with,
};

use crate::make::{self, Random, frame_starts, put_u32, put_u64, reseal, u32_at};

/// Whether the specification refuses what the reference implementation lets through. Walks the
/// bytes on its own; only asked where the reference accepts, so the lengths are right.
fn let_through(bytes: &[u8]) -> bool {
    let length = u64::from_le_bytes(bytes[32..40].try_into().expect("eight bytes"));
    let batch = &bytes[..length as usize];
    let starts = frame_starts(batch);
    let deltas: Vec<u64> = starts.iter().map(|at| u64::from(u32_at(batch, at + 24))).collect();
    bytes.len() as u64 != length
        || starts.is_empty()
        || deltas.windows(2).any(|pair| pair[0] + 1 != pair[1])
        || starts.iter().any(|&at| {
            let payload_end = at + 48 + u32_at(batch, at + 36) as usize;
            let end = payload_end + u32_at(batch, at + 32) as usize;
            !well_formed(&batch[payload_end..end])
        })
}

fn well_formed(mut block: &[u8]) -> bool {
    let mut fields = 0;
    while !block.is_empty() {
        if block.len() < 6 || block[0] == 0 {
            return false;
        }
        let length = u32_at(block, 1) as usize;
        if length == 0 || length > 255 || block.len() < 5 + length {
            return false;
        }
        block = &block[5 + length..];
        fields += 1;
    }
    fields % 2 == 0
}

fn ours(bytes: &[u8]) -> Result<Batch<'_>, FormatError> {
    UnverifiedBatch::new(bytes).and_then(UnverifiedBatch::verify)
}

fn same_content(ours: &Batch<'_>, theirs: &BatchRef<'_>) {
    let (a, b) = (ours.header(), &theirs.header);
    assert_eq!(a.partition_id, b.partition_id);
    assert_eq!(a.base_offset, b.base_offset);
    assert_eq!(a.base_timestamp, b.base_timestamp);
    assert_eq!(a.origin_timestamp, b.origin_timestamp);
    assert_eq!(a.batch_length, b.batch_length);
    assert_eq!(a.batch_checksum, b.batch_checksum);
    assert_eq!(a.message_count, b.message_count);
    assert_eq!(ours.frames().len(), theirs.iter().count());
    for (frame, message) in ours.frames().zip(theirs.iter()) {
        assert_eq!(frame.checksum(), message.header.checksum);
        assert_eq!(frame.id(), message.header.id);
        assert_eq!(frame.offset_delta(), message.header.offset_delta);
        assert_eq!(frame.timestamp_delta(), message.header.timestamp_delta);
        assert_eq!(frame.payload(), message.payload);
        assert_eq!(frame.user_headers().bytes(), message.user_headers);
    }
}

/// One change of the kind that hostile or broken peers make.
fn mutate(batch: &mut Vec<u8>, random: &mut Random) {
    let starts = frame_starts(batch);
    let pick = |random: &mut Random| match starts.len() as u64 {
        0 => 256,
        count => starts[random.below(count) as usize],
    };
    let near = |value: u32, random: &mut Random| match random.below(6) {
        0 => 0,
        1 => u32::MAX,
        2 => value.wrapping_add(1),
        3 => value.wrapping_sub(1),
        4 => value ^ (1 << random.below(32)),
        _ => random.next() as u32,
    };
    if batch.len() < 304 {
        batch.extend_from_slice(&random.bytes(304));
        return;
    }
    match random.below(12) {
        0 => {
            let count = near(u32_at(batch, 48), random);
            put_u32(batch, 48, count);
        }
        1 => {
            let length = near(u32_at(batch, 32), random);
            put_u64(batch, 32, u64::from(length) << (32 * random.below(2)));
        }
        2 => {
            let field = [0, 8, 16, 24][random.below(4) as usize];
            put_u64(batch, field, random.next());
        }
        3 => batch[52 + random.below(204) as usize] = random.below(2) as u8,
        4..=6 => {
            // offset_delta, timestamp_delta, user_headers_length, payload_length, reserved.
            let field = pick(random) + 24 + 4 * random.below(6) as usize;
            if field + 4 <= batch.len() {
                let value = near(u32_at(batch, field), random);
                put_u32(batch, field, value);
            }
        }
        7 => move_bytes_between_payload_and_headers(batch, pick(random), random),
        8 => batch.truncate(random.below(batch.len() as u64 + 1) as usize),
        9 => {
            let extra = random.below(60) as usize;
            let bytes = random.bytes(extra);
            batch.extend_from_slice(&bytes);
        }
        10 => {
            let place = random.below(batch.len() as u64) as usize;
            batch[place] ^= 1 << random.below(8);
        }
        _ => drop_or_repeat_a_frame(batch, pick(random), random),
    }
}

/// Keeps the frame's length and moves the border inside: what was payload is now user headers.
fn move_bytes_between_payload_and_headers(batch: &mut [u8], frame: usize, random: &mut Random) {
    if frame + 48 > batch.len() {
        return;
    }
    let body = u64::from(u32_at(batch, frame + 32)) + u64::from(u32_at(batch, frame + 36));
    let headers = random.below(body + 1);
    put_u32(batch, frame + 32, headers as u32);
    put_u32(batch, frame + 36, (body - headers) as u32);
}

/// Takes a frame out or doubles it; the header's numbers follow half of the time.
fn drop_or_repeat_a_frame(batch: &mut Vec<u8>, frame: usize, random: &mut Random) {
    let starts = frame_starts(batch);
    let Some(place) = starts.iter().position(|&start| start == frame) else { return };
    let end = starts.get(place + 1).copied().unwrap_or(batch.len());
    let copy = batch[frame..end].to_vec();
    let count = u32_at(batch, 48);
    let count = if random.below(2) == 0 {
        batch.drain(frame..end);
        count.wrapping_sub(1)
    } else {
        batch.splice(end..end, copy);
        count.wrapping_add(1)
    };
    if random.below(2) == 0 {
        put_u32(batch, 48, count);
        let length = batch.len() as u64;
        put_u64(batch, 32, length);
    }
}

#[test]
fn both_judge_changed_batches_alike() {
    let mut random = Random(0x5eed);
    let (mut accepted, mut refused, mut passed) = (0, 0, 0);
    for round in 0..40_000_u64 {
        let sent = make::random(&mut random, 4);
        let mut batch = make::stamped(sent, random.below(9), random.below(1 << 40), round);
        for _ in 0..=random.below(3) {
            mutate(&mut batch, &mut random);
        }
        if round % 8 != 0 {
            reseal(&mut batch);
        }
        let theirs = decode_batch_slice(&batch);
        match (ours(&batch), &theirs) {
            (Ok(ours), Ok(theirs)) => {
                assert!(!let_through(&batch), "round {round}: we let it through too");
                same_content(&ours, theirs);
                accepted += 1;
            }
            (Err(_), Err(_)) => refused += 1,
            (Err(error), Ok(_)) => {
                assert!(let_through(&batch), "round {round}: we refuse a good batch: {error}");
                passed += 1;
            }
            (Ok(_), Err(error)) => panic!("round {round}: we accept what they refuse: {error}"),
        }
        layouts_agree(&batch, round);
    }
    // All three ways must have been gone often, or this proves nothing.
    let least = accepted.min(refused).min(passed);
    assert!(least > 2_000, "accepted {accepted}, refused {refused}, let through {passed}");
}

/// The checks without checksums agree too, with the same exceptions as for stored batches.
fn layouts_agree(batch: &[u8], round: u64) {
    let ours = UnverifiedBatch::split_first(batch).and_then(|(batch, _)| batch.verify_layout());
    let theirs = decode_batch_slice_with(batch, BatchIntegrity::LayoutOnly);
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => same_content(&ours, &theirs),
        (Err(_), Err(_)) => {}
        (Err(error), Ok(theirs)) => {
            assert_eq!(theirs.message_count(), 0, "round {round}: only we refuse: {error}");
        }
        (Ok(_), Err(error)) => panic!("round {round}: only they refuse: {error}"),
    }
}

#[test]
fn both_read_our_slices_alike() {
    let mut random = Random(21);
    for _ in 0..200 {
        let stored = make::stamped(make::random(&mut random, 20), 1, 500, 9);
        let batch = ours(&stored).expect("a good batch");
        let count = u64::from(batch.header().message_count);
        let start = random.below(count);
        let end = start + 1 + random.below(count - start);
        let slice = batch.slice(start as u32..end as u32).expect("a good range");
        let view = [&slice.header[..], &stored[slice.frames]].concat();
        let theirs = decode_batch_slice(&view).expect("they accept it");
        same_content(&ours(&view).expect("we accept it"), &theirs);
    }
}
