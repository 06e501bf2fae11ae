//! Every error says what happened, where, and what to do.

use std::io;

use corelog_format::FormatErrorKind;
use corelog_io::IoOp;

use super::*;
use crate::OffsetError;

const PATH: &str = "/data/streams/1/topics/2/partitions/3/00000000000000000042.log";

fn io_error() -> IoError {
    IoError::new(IoOp::Write, PATH, io::Error::from_raw_os_error(5)).at(8192)
}

fn fault() -> Arc<Fault> {
    Arc::new(Fault { since_us: 1_700_000_000_000_000, error: io_error() })
}

/// What must stand in a message beside the action: the system's error with path and position, or
/// what the error itself says about the place.
const IO: &[&str] = &["cannot write", PATH, "byte 8192", "Input/output error"];
const FAULT: &[&str] = &[PATH, "byte 8192", "Input/output error", "1700000000000000"];
const NOWHERE: &[&str] = &[];

fn append_errors() -> Vec<(AppendError, &'static [&'static str])> {
    // A new variant does not compile here until it has a row.
    let _known = |error: &AppendError| match error {
        AppendError::StorageFull(_)
        | AppendError::NoSegment(_)
        | AppendError::NoFile(_)
        | AppendError::Offsets(_)
        | AppendError::Poisoned(_)
        | AppendError::Closed
        | AppendError::OffsetsExhausted { .. } => {}
    };
    vec![
        (AppendError::StorageFull(Arc::new(io_error())), IO),
        (AppendError::NoSegment(Arc::new(io_error())), IO),
        (AppendError::NoFile(Arc::new(io_error())), IO),
        (AppendError::Offsets(Arc::new(io_error())), IO),
        (AppendError::Poisoned(fault()), FAULT),
        (AppendError::Closed, NOWHERE),
        (AppendError::OffsetsExhausted { next_offset: u64::MAX }, &["from 18446744073709551615"]),
    ]
}

fn poll_errors() -> Vec<(PollError, &'static [&'static str])> {
    let _known = |error: &PollError| match error {
        PollError::Corrupt { .. }
        | PollError::Unreadable { .. }
        | PollError::Io(_)
        | PollError::Offsets(_)
        | PollError::Closed => {}
    };
    let corrupt = |resume_offset| {
        let kind = FormatErrorKind::Checksum { expected: 1, found: 2 };
        let why = FormatError::new(4711, "batch_checksum", kind);
        PollError::Corrupt { segment: 42, position: 4711, resume_offset, why }
    };
    let unreadable = |resume_offset| PollError::Unreadable {
        segment: 42,
        position: 4711,
        resume_offset,
        error: io_error(),
    };
    let place: &[&str] = &["00000000000000000042.log", "byte 4711", "batch_checksum"];
    vec![
        (corrupt(Some(77)), place),
        (corrupt(None), place),
        (unreadable(Some(77)), &[PATH, "byte 8192", "byte 4711", "offset 77"]),
        (unreadable(None), &[PATH, "byte 8192", "byte 4711", "nothing"]),
        (PollError::Io(io_error()), IO),
        (PollError::Offsets(Arc::new(io_error())), IO),
        (PollError::Closed, NOWHERE),
    ]
}

fn offset_errors() -> Vec<(OffsetError, &'static [&'static str])> {
    let _known = |error: &OffsetError| match error {
        OffsetError::OutOfRange { .. }
        | OffsetError::NothingStored
        | OffsetError::GroupIsGone { .. }
        | OffsetError::TooMany { .. }
        | OffsetError::Unreadable(_)
        | OffsetError::Io(_)
        | OffsetError::Closed => {}
    };
    vec![
        (OffsetError::OutOfRange { offset: 9, last: Some(8) }, &["offset 9", "has 8"]),
        (OffsetError::OutOfRange { offset: 9, last: None }, &["offset 9", "no message"]),
        (OffsetError::NothingStored, NOWHERE),
        (OffsetError::GroupIsGone { id: 5 }, &["group 5", "deleted"]),
        (OffsetError::TooMany { max: 7 }, &["7 consumers"]),
        (OffsetError::Unreadable(Arc::new(io_error())), IO),
        (OffsetError::Io(io_error()), IO),
        (OffsetError::Closed, NOWHERE),
    ]
}

fn open_errors() -> Vec<(OpenError, &'static [&'static str])> {
    let _known = |error: &OpenError| match error {
        OpenError::Io(_)
        | OpenError::Config(_)
        | OpenError::Locked { .. }
        | OpenError::Manifest { .. }
        | OpenError::OtherIncarnation { .. } => {}
    };
    let newer = ManifestError::UnknownVersion { record: "manifest", found: 9 };
    let config = ConfigError { option: "segment_size", value: 1, min: 2, max: 3 };
    vec![
        (OpenError::Io(io_error()), IO),
        (OpenError::Config(config), &["segment_size = 1", "from 2 to 3"]),
        (OpenError::Locked { path: PATH.into() }, &[PATH]),
        (OpenError::Manifest { path: PATH.into(), why: newer }, &[PATH, "version 9"]),
        (
            OpenError::OtherIncarnation { dir: "/data/p".into(), found: 4, expected: 5 },
            &["/data/p", "4", "5"],
        ),
    ]
}

fn close_errors() -> Vec<(CloseError, &'static [&'static str])> {
    let _known = |error: &CloseError| match error {
        CloseError::Poisoned(_) | CloseError::Io(_) | CloseError::Closed => {}
    };
    vec![
        (CloseError::Poisoned(fault()), FAULT),
        (CloseError::Io(io_error()), IO),
        (CloseError::Closed, NOWHERE),
    ]
}

fn trim_errors() -> Vec<(TrimError, &'static [&'static str])> {
    let _known = |error: &TrimError| match error {
        TrimError::Manifest(_)
        | TrimError::Remove { .. }
        | TrimError::Poisoned(_)
        | TrimError::Closed => {}
    };
    vec![
        (TrimError::Manifest(io_error()), IO),
        (TrimError::Remove { start: 42, error: io_error() }, &["begins at 42", PATH, "byte 8192"]),
        (TrimError::Poisoned(fault()), FAULT),
        (TrimError::Closed, NOWHERE),
    ]
}

fn reopen_errors() -> Vec<(ReopenError, &'static [&'static str])> {
    let _known = |error: &ReopenError| match error {
        ReopenError::NotPoisoned | ReopenError::Closed | ReopenError::Open(_) => {}
    };
    vec![
        (ReopenError::NotPoisoned, NOWHERE),
        (ReopenError::Closed, NOWHERE),
        (ReopenError::Open(OpenError::Io(io_error())), IO),
    ]
}

/// Verbs of which each message has one: what the reader is to do now.
const ACTIONS: &[&str] = &[
    "retry",
    "reopen",
    "open it",
    "open again",
    "mend the disk and open",
    "delete some",
    "append to",
    "poll",
    "close it",
    "choose",
    "move it",
    "put back",
    "go on",
    "removes what is left",
    "do nothing",
];

fn check<E: std::error::Error>(errors: Vec<(E, &[&str])>) {
    for (error, parts) in errors {
        let text = error.to_string();
        println!("{text}");
        for part in parts {
            assert!(text.contains(part), "{part:?} is missing: {text}");
        }
        assert!(ACTIONS.iter().any(|action| text.contains(action)), "what is to be done: {text}");
        assert!(!text.contains('\n') && text.len() < 400, "one line: {text}");
        // The system's error is kept, for callers that decide by its number.
        let says_io = parts.contains(&PATH) && parts.contains(&"byte 8192");
        let mut source = error.source();
        let mut found = false;
        while let Some(inner) = source {
            found |= inner.downcast_ref::<io::Error>().is_some_and(|e| e.raw_os_error() == Some(5));
            source = inner.source();
        }
        assert_eq!(found, says_io, "{text}");
    }
}

/// Who has no descriptors left is not sent to mend a disk.
#[test]
fn without_descriptors_the_advice_is_to_raise_the_limit() {
    let error = || IoError::new(IoOp::Open, PATH, io::Error::from_raw_os_error(24));
    let shared = || Arc::new(error());
    for text in [
        AppendError::NoSegment(shared()).to_string(),
        AppendError::NoFile(shared()).to_string(),
        AppendError::Offsets(shared()).to_string(),
        PollError::Io(error()).to_string(),
        PollError::Offsets(shared()).to_string(),
        OffsetError::Unreadable(shared()).to_string(),
        OpenError::Io(error()).to_string(),
        ReopenError::Open(OpenError::Io(error())).to_string(),
    ] {
        assert!(text.contains("raise the limit of open files (RLIMIT_NOFILE) and "), "{text}");
        assert!(!text.contains("mend"), "{text}");
    }
}

#[test]
fn each_message_says_what_where_and_what_to_do() {
    check(append_errors());
    check(poll_errors());
    check(offset_errors());
    check(open_errors());
    check(close_errors());
    check(trim_errors());
    check(reopen_errors());
}
