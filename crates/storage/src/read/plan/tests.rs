//! Tables of what is read from where: each row is a log, a reader, and the windows that it gets.

use corelog_format::IndexEntry;

use super::*;

const K: u64 = 1 << 10;
const END: u64 = u64::MAX;

/// An index with an entry at each of `positions`, ten messages apart.
fn index(positions: &[u64]) -> SparseIndex {
    let mut index = SparseIndex::default();
    for (n, position) in positions.iter().enumerate() {
        let n = n as u64;
        index.note(
            IndexEntry { base_offset: n * 10, base_timestamp: n + 1, position: *position },
            1,
        );
    }
    index
}

fn reach(size: u64, long: u64, ahead: u64, until: u64) -> Reach {
    Reach { size, long, ahead, until }
}

#[test]
fn where_a_poll_begins() {
    use Begin::{At, Time};
    // from, start, end -> where
    let cases = [
        (From::Offset(50), 10, 100, At(50)),
        (From::Offset(3), 10, 100, At(10)),
        (From::Offset(200), 10, 100, At(200)),
        (From::First, 10, 100, At(10)),
        (From::Last(5), 10, 100, At(95)),
        (From::Last(0), 10, 100, At(100)),
        (From::Last(91), 10, 100, At(10)),
        (From::Last(u32::MAX), 0, 0, At(0)),
        (From::Timestamp(7), 10, 100, Time(7)),
    ];
    for (from, start, end, expected) in cases {
        assert_eq!(begin(from, start, end), expected, "{from:?} in {start}..{end}");
    }
}

#[test]
fn who_serves_an_offset() {
    use Source::{Hole, Memory, Nobody, Segment};
    // offset, memory from, segment, first -> who; the log ends at 100
    let cases = [
        (100, Some(0), Some(0), 0, Nobody),
        (150, None, Some(0), 0, Nobody),
        (99, Some(80), Some(50), 0, Memory),
        (80, Some(80), Some(50), 0, Memory),
        (79, Some(80), Some(50), 0, Segment(50)),
        (99, None, Some(50), 0, Segment(50)),
        (9, None, None, 10, Hole(10)),
        (9, Some(9), None, 10, Memory),
    ];
    for (offset, memory, segment, first, expected) in cases {
        assert_eq!(source(offset, 100, memory, segment, first), expected, "{offset} {memory:?}");
    }
}

#[test]
fn windows_are_cut_where_batches_begin() {
    let all = [0, 70_000, 140_000, 1_200_000, 9_000_000];
    let size = 128 * K;
    // end, position, at least, until -> to, whole
    let cases = [
        // The last entry that fits with its block; neighbours share the block.
        (END, 0, 0, END, 70_000, true),
        (END, 70_000, 0, END, 140_000, true),
        // No entry fits, but one step is no longer than a long window.
        (END, 140_000, 0, END, 1_200_000, true),
        // Nor that: as much as a window holds, and a batch of that length begins inside a block.
        (END, 1_200_000, 0, END, 1_196_032 + 136 * K, false),
        // Until the reader knows the batch's length.
        (END, 1_200_000, 3_000_000, END, 4_200_000, true),
        // Behind the last entry.
        (END, 9_000_000, 0, END, 8_998_912 + 136 * K, false),
        // Never beyond what is written; that is where a batch ends.
        (50_000, 0, 0, END, 50_000, true),
        (100_000, 70_000, 0, END, 100_000, true),
        (9_100_000, 9_000_000, 0, END, 9_100_000, true),
        (9_900_000, 9_000_000, 0, END, 8_998_912 + 136 * K, false),
        (50_000, 0, 60_000, END, 50_000, true),
        // An entry that lies cuts a batch in two: it is read whole.
        (END, 0, 80_000, END, 80_000, true),
        // Nothing behind the last message that is wanted; entries are at offsets 0, 10, 20, ...
        (END, 0, 0, 5, 70_000, true),
        (END, 0, 0, 10, 70_000, true),
        (END, 70_000, 0, 15, 140_000, true),
    ];
    for (end, position, at_least, until, to, whole) in cases {
        let cut = window(&index(&all), end, position, at_least, reach(size, 2 << 20, 0, until));
        let expected = Cut { from: position, to, whole };
        assert_eq!(cut, expected, "{at_least} at {position} to {end}, until {until}");
    }
}

#[test]
fn a_window_of_many_steps_ends_where_nothing_more_is_wanted() {
    let steps: Vec<u64> = (0..100).map(|n| n * 65_000).collect();
    let cut = |until| window(&index(&steps), END, 0, 0, reach(1 << 20, 8 << 20, 0, until)).to;
    assert_eq!([cut(1), cut(11), cut(101), cut(END)], [65_000, 130_000, 715_000, 1_040_000]);
    assert_eq!(window(&SparseIndex::default(), END, 0, 0, reach(K << 6, 8 << 20, 0, 1)).to, 72 * K);
}

#[test]
fn only_what_is_not_there_is_read_ahead() {
    let steps: Vec<u64> = (0..40).map(|n| n * 65_000).collect();
    let index = index(&steps);
    let next = |position, ahead, until, end, there: &[(u64, u64, bool)]| {
        let there = |at| {
            let found = there.iter().find(|(from, to, _)| (*from..*to).contains(&at));
            found.map(|(_, to, whole)| (*to, *whole))
        };
        let cut = missing(&index, end, position, reach(128 * K, 8 << 20, ahead, until), there);
        cut.map(|cut| cut.from..cut.to)
    };
    assert_eq!(next(0, 300 * K, END, END, &[]), Some(0..130_000));
    let one = [(0, 130_000, true)];
    assert_eq!(next(0, 300 * K, END, END, &one), Some(130_000..195_000));
    assert_eq!(next(65_000, 300 * K, END, END, &one), Some(130_000..195_000));
    // There already, as far as is wanted.
    assert_eq!(next(0, 100 * K, END, END, &one), None);
    let two = [(0, 130_000, true), (130_000, 400_000, true)];
    assert_eq!(next(0, 300 * K, END, END, &two), None);
    // Where the last one ends nobody knows yet.
    assert_eq!(next(0, 300 * K, END, END, &[(0, 130_000, false)]), None);
    // The last message that is wanted lies before; or the log ends.
    assert_eq!(next(0, 300 * K, 20, END, &one), None);
    assert_eq!(next(0, 300 * K, 21, END, &one), Some(130_000..195_000));
    assert_eq!(next(0, 300 * K, END, 130_000, &one), None);
    assert_eq!(next(0, 300 * K, END, 130_001, &one), Some(130_000..130_001));
}

#[test]
fn how_far_to_read_follows_what_was_read() {
    let limits =
        SharedLimits { read_bytes: 1 << 20, read_ahead_bytes: 4 << 20, ..SharedLimits::default() };
    // bytes, way, run -> window, ahead, bounded by the poll's messages
    let cases = [
        (0, 0, 0, 64 * K, 0, true),
        (10_000, 64 * K, 0, 128 * K, 10_000 + 64 * K, true),
        (2 << 20, 0, 0, 1 << 20, 2 << 20, true),
        (100 << 20, 0, 0, 1 << 20, 4 << 20, true),
        (4_000, 0, 4_000, 64 * K, 4_000, false),
        (4_000, 0, 300 * K, 512 * K, 300 * K, false),
        (4_000, 0, 50 << 20, 1 << 20, 4 << 20, false),
    ];
    for (bytes, way, run, size, ahead, bounded) in cases {
        let reach = Want { bytes, until: 77, way, run }.reach(&limits, 64 * K);
        let until = if bounded { 77 } else { u64::MAX };
        let expected = Reach { size, long: 4 << 20, ahead, until };
        assert_eq!(reach, expected, "{bytes} bytes, {way} on the way, after {run}");
    }
    let none = SharedLimits { read_bytes: 4 << 10, read_ahead_bytes: 0, ..limits };
    let reach = Want { bytes: 1 << 20, until: 1, way: 0, run: 1 << 30 }.reach(&none, 64 * K);
    assert_eq!((reach.size, reach.ahead), (4 * K, 0), "small windows, nothing ahead");
    let long = |run| Want { bytes: 4_000, until: 1, way: 0, run }.reach(&limits, 2 << 20).long;
    assert_eq!([long(0), long(300 * K), long(2 << 20)], [64 * K, 512 * K, 4 << 20], "long steps");
}
