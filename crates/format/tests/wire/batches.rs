//! The batch rows. All of them have `offset_delta`s that are the frames' indexes, so the strictest
//! reading, `verify`, must take every good one and admission must, too.

use corelog_format::{
    Batch, BatchBuilder, FormatError, FormatErrorKind as Kind, Message, UnverifiedBatch, admit,
};

use crate::rows::Row;
use crate::{json, rows};

fn batch_rows(good: bool) -> impl Iterator<Item = Row> {
    rows::all().into_iter().filter(move |row| row.kind == "batch" && row.value.is_some() == good)
}

#[test]
fn good_batches_decode_to_their_value() {
    let mut seen = 0;
    for row in batch_rows(true) {
        let batch = UnverifiedBatch::new(&row.bytes)
            .and_then(UnverifiedBatch::verify)
            .unwrap_or_else(|error| panic!("line {}: {error}", row.line));
        assert_eq!(Some(json::batch(&batch)), row.value, "line {}", row.line);
        assert!(batch.deltas_are_index(), "line {}", row.line);
        assert_eq!(batch.first_offset(), batch.header().base_offset);
        seen += 1;
    }
    assert_eq!(seen, 30, "rows of the file");
}

#[test]
fn good_batches_are_admitted_and_their_own_stamp_changes_nothing() {
    for row in batch_rows(true) {
        let mut admitted =
            admit(&row.bytes).unwrap_or_else(|error| panic!("{}: {error}", row.line));
        let sent = *admitted.header();
        let other = admitted.stamp(7, 7, 7);
        assert_ne!(other, row.bytes[..256], "line {}", row.line);
        let stamped = admitted.stamp(sent.partition_id, sent.base_offset, sent.base_timestamp);
        assert_eq!(stamped, row.bytes[..256], "line {}", row.line);
    }
}

/// A producer builds the row again from its messages. Two fields may differ: the rows' own
/// `origin_timestamp` need not be the earliest message's, the builder's is, and the checksum
/// follows it.
#[test]
fn good_batches_are_built_again_from_their_messages() {
    for row in batch_rows(true) {
        let batch = UnverifiedBatch::new(&row.bytes).and_then(UnverifiedBatch::verify);
        let batch = batch.expect("a good row");
        let sent = batch.header();

        let mut builder = BatchBuilder::new();
        for frame in batch.frames() {
            let origin = sent.origin_timestamp + u64::from(frame.timestamp_delta());
            let message = Message::new(frame.payload()).id(frame.id()).origin_timestamp(origin);
            builder.push(message.user_headers(frame.user_headers())).expect("a good message");
        }
        let mut built = builder.finish().expect("a batch of at least one message");
        let mut admitted = admit(&built).unwrap_or_else(|error| panic!("{}: {error}", row.line));
        built[..256].copy_from_slice(&admitted.stamp(
            sent.partition_id,
            sent.base_offset,
            sent.base_timestamp,
        ));

        let again = UnverifiedBatch::new(&built).and_then(UnverifiedBatch::verify);
        let again = again.expect("a stamped batch verifies");
        let mut expected = row.value.expect("a good row");
        let earliest = sent.origin_timestamp
            + batch.frames().map(|frame| u64::from(frame.timestamp_delta())).min().unwrap_or(0);
        expected["origin_timestamp"] = earliest.into();
        expected["batch_checksum"] = again.header().batch_checksum.to_string().into();
        assert_eq!(json::batch(&again), expected, "line {}", row.line);
        let payloads =
            |of: &Batch<'_>| of.frames().map(|f| f.payload().to_vec()).collect::<Vec<_>>();
        assert_eq!(payloads(&again), payloads(&batch), "line {}", row.line);
    }
}

#[test]
fn bad_batches_are_refused_for_the_reason_in_their_note() {
    let mut seen = 0;
    for row in batch_rows(false) {
        let (line, note) = (row.line, &row.note);
        let error = UnverifiedBatch::new(&row.bytes)
            .and_then(UnverifiedBatch::verify)
            .expect_err(&format!("line {line}: {note}"));
        assert!(error.at <= row.bytes.len() as u64, "line {line}: {error}");
        assert!(fits_note(note, &error, row.bytes.len()), "line {line}, {note}: {error}");
        assert_eq!(admit(&row.bytes).err(), Some(error), "line {line}");
        seen += 1;
    }
    assert_eq!(seen, 91, "rows of the file");
}

fn fits_note(note: &str, error: &FormatError, length: usize) -> bool {
    match (note, error.kind) {
        ("truncated", Kind::Truncated { have, .. }) => have == length as u64,
        ("trailing byte", Kind::Trailing { extra: 1 }) => error.at == length as u64 - 1,
        ("reserved header byte", Kind::NotZero { .. }) => (52..256).contains(&error.at),
        // Where the bit stands in a frame, its checksum is what notices, at the frame's start.
        _ => note.strip_prefix("bit ").is_some_and(|rest| {
            let bit = rest.split(' ').next().and_then(|number| number.parse::<u64>().ok());
            bit.is_some_and(|bit| error.at <= bit / 8 || error.field.ends_with("checksum"))
        }),
    }
}
