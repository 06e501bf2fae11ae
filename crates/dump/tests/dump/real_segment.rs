//! The recorded segment of the reference server, whole.

use std::ffi::OsStr;

use corelog_format::segment_file_name;
use serde_json::json;

use crate::support::{dump, real_partition, verify_one};

#[test]
fn it_verifies_clean() {
    let report = verify_one(&real_partition(), 0);
    let expected = json!({
        "path": real_partition().join(segment_file_name(0)),
        "verdict": "clean", "batches": 20, "messages": 1548, "first_offset": 0,
        "last_offset": 1547, "bytes": 705_197, "zero_tail": 0, "index": "ok",
        "findings": [], "faults": [], "level": "full",
        "not_checked": [{
            "what": "partition_id", "detail": "whose partition it is: its place does not say"
        }]
    });
    assert_eq!(report, expected);
}

#[test]
fn ls_counts_the_same() {
    let ran = dump([OsStr::new("ls"), real_partition().as_os_str()]).expect(0);
    let line = ran.out.lines().nth(1).expect("a line below the title");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..2], ["0", "1547"]);
    assert_eq!(words[2..4], ["2026-11-29T20:22:24.844316Z", "2026-11-29T20:22:26.106923Z"]);
    assert_eq!(words[4..10], ["705197", "20", "1548", "ok", "-", "active"]);
    assert!(words[10].ends_with("00000000000000000000.log") && ran.err.is_empty(), "{ran:?}");
}

/// Whatever flags are combined, the lines are as many as what they stand for (kafka PR 4396).
#[test]
fn show_prints_all_of_it_with_any_flags() {
    let partition = real_partition();
    for (flags, lines) in [
        (&[][..], 20),
        (&["--ndjson"][..], 20),
        (&["--messages"][..], 1548),
        (&["--messages", "--ndjson"][..], 1548),
        (&["--no-mmap", "--messages"][..], 1548),
        (&["--limit", "7"][..], 7),
        (&["--messages", "--limit", "1002"][..], 1002),
        (&["--limit", "0"][..], 0),
    ] {
        let args = ["show"].iter().chain(flags).map(OsStr::new).chain([partition.as_os_str()]);
        let ran = dump(args).expect(0);
        assert_eq!(ran.out.lines().count(), lines, "{flags:?}");
        assert!(ran.err.is_empty(), "{ran:?}");
    }
}
