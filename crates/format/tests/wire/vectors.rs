//! The rows themselves: good ones give their value and their bytes back, bad ones a clear error.

use corelog_format::{FormatError, FormatErrorKind as Kind};

use crate::{codecs, rows};

#[test]
fn good_rows_decode_to_their_value_and_encode_to_their_bytes() {
    let mut seen = 0;
    for row in rows::good() {
        let codec = codecs::of(&row.kind);
        let value = (codec.decode)(&row.bytes);
        assert_eq!(value.ok(), row.value, "line {}, {}", row.line, row.kind);
        assert_eq!((codec.again)(&row.bytes).ok().as_ref(), Some(&row.bytes), "line {}", row.line);
        seen += 1;
    }
    assert_eq!(seen, 242, "rows of the file");
}

#[test]
fn bad_rows_are_refused_for_the_reason_in_their_note() {
    let mut seen = 0;
    for row in rows::all() {
        if row.value.is_some() || row.kind == "batch" {
            continue;
        }
        let error = (codecs::of(&row.kind).decode)(&row.bytes)
            .expect_err(&format!("line {}, {}: {}", row.line, row.kind, row.note));
        assert!(error.at <= row.bytes.len() as u64, "line {}: {error}", row.line);
        assert!(fits_note(&row.note, &error), "line {}, {}: {error}", row.line, row.note);
        seen += 1;
    }
    assert_eq!(seen, 186, "rows of the file");
}

/// Whether the error says what the vectors' author broke.
fn fits_note(note: &str, error: &FormatError) -> bool {
    let field = error.field;
    match (note, error.kind) {
        ("truncated" | "no length" | "truncated key", Kind::Truncated { .. }) => true,
        // A zero byte behind a block is the kind of one more key.
        ("trailing byte", Kind::UnknownCode { found: 0 }) => field == "key kind",
        ("duplicate key", Kind::DuplicateKey) => field == "key",
        ("odd field count", Kind::KeyWithoutValue) => true,
        ("not UTF-8" | "key not UTF-8", Kind::NotUtf8) => true,
        ("key kind not string", Kind::KeyNotString { found: 1 }) => field == "key kind",
        ("key kind 0", Kind::UnknownCode { found: 0 }) => field == "key kind",
        ("value kind 0", Kind::UnknownCode { found: 0 }) => field == "value kind",
        ("kind 0", Kind::UnknownCode { found: 0 }) => field.ends_with("kind"),
        ("kind 3", Kind::UnknownCode { found: 3 }) => field.ends_with("kind"),
        ("kind 4", Kind::UnknownCode { found: 4 }) => field.ends_with("kind"),
        ("kind 6", Kind::UnknownCode { found: 6 }) => field.ends_with("kind"),
        ("kind 255", Kind::UnknownCode { found: 255 }) => field.ends_with("kind"),
        ("flag 2", Kind::UnknownCode { found: 2 }) => field.ends_with("flag"),
        ("flag 0 with a value", Kind::Mismatch { expected: 0, .. }) => field == "partition_id",
        (
            "numeric length 3" | "partition id length 3",
            Kind::Mismatch { expected: 4, found: 3 },
        ) => field.ends_with("length"),
        ("numeric length 5", Kind::Mismatch { expected: 4, found: 5 }) => field.ends_with("length"),
        ("balanced with a value", Kind::Mismatch { expected: 0, found: 1 }) => {
            field.ends_with("length")
        }
        (
            "empty" | "empty string" | "empty key" | "length 0",
            Kind::OutOfRange { found: 0, .. },
        ) => field.ends_with("length"),
        ("length 256", Kind::OutOfRange { found: 256, .. }) => field == "value length",
        ("length 2^32-1", Kind::OutOfRange { found: 4_294_967_295, .. }) => field == "value length",
        ("1025 entries", Kind::OutOfRange { found: 1025, max: 1024, .. }) => {
            field == "options entries"
        }
        ("over 100000 bytes", Kind::OutOfRange { max: 100_000, .. }) => field == "options length",
        _ => false,
    }
}
