//! A batch that verifies is still no batch of this place when it does not continue the log.

use corelog_format::{Expect, Findings, FormatErrorKind as Kind, Step, scan};

use crate::make::{self, put_u32, reseal};

/// The small batch (two messages) as stored at this partition, offset and time.
fn batch(partition: u64, offset: u64, time: u64) -> Vec<u8> {
    make::stamped(make::small(), partition, offset, time)
}

fn steps(file: &[u8], expect: Expect) -> Vec<Step<'_>> {
    scan(file, 0, expect).collect()
}

/// The refusal of the batch at byte `at`.
#[track_caller]
fn torn(steps: &[Step<'_>], at: usize) -> (u64, &'static str, Kind) {
    match steps.last() {
        Some(Step::Torn { at: found, why }) if *found == at as u64 => {
            (why.at - *found, why.field, why.kind)
        }
        last => panic!("{last:?}"),
    }
}

#[test]
fn the_first_batch_is_held_against_the_place() {
    let file = batch(3, 42, 1000);
    let good = Expect {
        partition_id: Some(3),
        next_offset: Some(42),
        after_timestamp: Some(999),
        time_may_go_back: false,
    };
    let mismatch = |expected, found| Kind::Mismatch { expected, found };
    assert!(matches!(steps(&file, good)[..], [Step::Batch { .. }, Step::End { .. }]));
    assert!(matches!(steps(&file, Expect::default())[..], [Step::Batch { .. }, Step::End { .. }]));

    let other = Expect { partition_id: Some(4), ..good };
    assert_eq!(torn(&steps(&file, other), 0), (0, "partition_id", mismatch(4, 3)));
    for offset in [0, 41, 43, 44] {
        let other = Expect { next_offset: Some(offset), ..good };
        assert_eq!(torn(&steps(&file, other), 0), (8, "base_offset", mismatch(offset, 42)));
    }
    for time in [1000, 1001] {
        let other = Expect { after_timestamp: Some(time), ..good };
        let expected = (16, "base_timestamp", mismatch(time + 1, 1000));
        assert_eq!(torn(&steps(&file, other), 0), expected);
    }
}

/// Nothing was said about the place, so the first batch says it for those that follow.
#[test]
fn each_batch_continues_the_one_before() {
    let first = batch(3, 42, 1000);
    let at = first.len();
    let mismatch = |expected, found| Kind::Mismatch { expected, found };
    let cases = [
        (batch(4, 44, 1001), (0, "partition_id", mismatch(3, 4))),
        (batch(3, 43, 1001), (8, "base_offset", mismatch(44, 43))),
        (batch(3, 45, 1001), (8, "base_offset", mismatch(44, 45))),
        (batch(3, 42, 1001), (8, "base_offset", mismatch(44, 42))),
        (batch(3, 44, 1000), (16, "base_timestamp", mismatch(1001, 1000))),
        (batch(3, 44, 5), (16, "base_timestamp", mismatch(1001, 5))),
    ];
    for (second, expected) in cases {
        let file = [&first[..], &second].concat();
        assert_eq!(torn(&steps(&file, Expect::default()), at), expected);
    }
    let good = [&first[..], &batch(3, 44, 1001), &batch(3, 46, 1002)].concat();
    assert_eq!(steps(&good, Expect::default()).len(), 4);
}

/// Damage is named before the place is looked at: the header of a damaged batch says nothing.
#[test]
fn a_damaged_header_is_damage_and_not_a_mismatch() {
    let mut file = batch(3, 42, 1000);
    file[0] ^= 1;
    let expect = Expect { partition_id: Some(3), ..Expect::default() };
    let (_, field, kind) = torn(&steps(&file, expect), 0);
    assert_eq!(field, "batch_checksum");
    assert!(matches!(kind, Kind::Checksum { .. }));
}

fn findings(steps: &[Step<'_>]) -> Vec<Findings> {
    let found = steps.iter().filter_map(|step| match step {
        Step::Batch { findings, .. } => Some(*findings),
        _ => None,
    });
    found.collect()
}

#[test]
fn in_the_reference_servers_files_time_that_went_back_is_a_finding() {
    let times = [1000, 900, 900, 950, 2000];
    let file: Vec<u8> =
        (0..).zip(times).flat_map(|(index, time)| batch(3, 2 * index, time)).collect();
    let expect = Expect { after_timestamp: Some(10), time_may_go_back: true, ..Expect::default() };
    let steps = steps(&file, expect);
    let back: Vec<bool> = findings(&steps).iter().map(|found| found.time_went_back).collect();
    assert_eq!(back, [false, true, true, false, false]);
    assert!(matches!(steps.last(), Some(Step::End { .. })));
}

#[test]
fn odd_deltas_and_user_headers_are_findings() {
    let mut odd_deltas = batch(3, 0, 1000);
    put_u32(&mut odd_deltas, 256 + 24, 77);
    reseal(&mut odd_deltas);
    let mut odd_headers = batch(3, 2, 1001);
    odd_headers[256 + 48 + 17] = 0;
    reseal(&mut odd_headers);
    let file = [&odd_deltas[..], &odd_headers, &batch(3, 4, 1002)].concat();
    let steps = steps(&file, Expect::default());
    let none = Findings::default();
    let expected = [
        Findings { deltas_not_index: true, ..none },
        Findings { user_headers_malformed: true, ..none },
        none,
    ];
    assert_eq!(findings(&steps), expected);
    let Step::Batch { batch, .. } = steps[1] else { panic!("{:?}", steps[1]) };
    let odd = batch.frames().next().expect("two frames").user_headers();
    assert!(odd.iter().any(|header| header.is_err()), "reading them says what is wrong");
}

/// Offsets end where a u64 does; a batch beyond it could not be continued.
#[test]
fn offsets_do_not_wrap() {
    for (offset, good) in [(u64::MAX - 2, true), (u64::MAX - 1, false), (u64::MAX, false)] {
        let file = batch(3, offset, 1000);
        let steps = steps(&file, Expect::default());
        assert_eq!(matches!(steps[0], Step::Batch { .. }), good, "{offset}");
        if !good {
            let kind = Kind::OutOfRange { found: offset, min: 0, max: u64::MAX - 2 };
            assert_eq!(torn(&steps, 0), (8, "base_offset", kind));
        }
    }
}
