//! Whatever windows the scan is fed, it says the same as over the whole file at once.

use corelog_format::{BATCH_BYTES_MAX, Findings, FormatError, FormatErrorKind, Scan, Step, scan};

use crate::damage::{place, segment};
use crate::make::{Random, put_u64};

/// A step without its borrow.
#[derive(Debug, PartialEq)]
enum Said {
    Batch { at: u64, bytes: Vec<u8>, findings: Findings },
    Torn(u64, FormatError),
    Corrupt(u64, FormatError),
    End(u64),
}

fn said(step: Step<'_>) -> Option<Said> {
    Some(match step {
        Step::Batch { at, batch, findings } => {
            Said::Batch { at, bytes: batch.bytes().to_vec(), findings }
        }
        Step::Torn { at, why } => Said::Torn(at, why),
        Step::Corrupt { at, why } => Said::Corrupt(at, why),
        Step::End { at } => Said::End(at),
        Step::NeedBytes { .. } => return None,
    })
}

/// Feeds windows of the lengths that `choose` gives, told how many bytes were asked for.
fn fed(file: &[u8], durable_to: u64, mut choose: impl FnMut(u64) -> u64) -> Vec<Said> {
    let mut scan = Scan::new(0, file.len() as u64, durable_to, place());
    let (mut all, mut need) = (Vec::new(), 0);
    for _ in 0..100_000 {
        let (from, length) = (scan.position(), choose(need));
        let to = (from + length).min(file.len() as u64);
        let window = &file[from as usize..to as usize];
        let step = scan.next(window);
        if let Step::NeedBytes { len } = step {
            let moved = scan.position() > from;
            assert!(moved || len > window.len() as u64, "it asks for what it has");
            assert!(len <= file.len() as u64 - scan.position(), "it asks beyond the file's end");
            assert!(len <= BATCH_BYTES_MAX);
            need = len;
            continue;
        }
        need = 0;
        let over = !matches!(step, Step::Batch { .. });
        all.extend(said(step));
        if over {
            // The last word is the last word, whatever window follows.
            let again = [scan.next(&[]), scan.next(file)].map(said);
            assert!(again.iter().all(|word| word.as_ref() == all.last()), "{again:?}");
            return all;
        }
    }
    panic!("the scan does not end");
}

/// A segment as crashes leave it: clean, cut, zero-padded, overwritten, with another behind it.
fn left_behind(random: &mut Random) -> Vec<u8> {
    let count = random.below(5);
    let (mut file, starts) = segment(random, count, 6);
    match random.below(7) {
        0 => {}
        1 => file.truncate(random.below(file.len() as u64 + 1) as usize),
        2 => file.resize(file.len() + random.below(1_000_000) as usize, 0),
        3 => {
            file.resize(file.len() + random.below(600_000) as usize, 0);
            file.push(1);
        }
        4 if !file.is_empty() => {
            let place = random.below(file.len() as u64) as usize;
            file[place] ^= 1 << random.below(8);
        }
        5 if count > 0 => {
            let start = starts[random.below(count) as usize];
            let length = random.next() >> random.below(64);
            put_u64(&mut file, start + 32, length);
        }
        _ => {
            let noise = random.bytes(700);
            file.extend_from_slice(&noise);
        }
    }
    file
}

#[test]
fn random_windows_say_what_the_whole_file_says() {
    let mut random = Random(0x77);
    let mut ends = [0; 3];
    for round in 0..1_500 {
        let file = left_behind(&mut random);
        let durable_to = match random.below(3) {
            0 => u64::MAX,
            1 => 0,
            _ => random.below(file.len() as u64 + 1),
        };
        let whole: Vec<Said> = scan(&file, durable_to, place()).filter_map(said).collect();
        match whole.last() {
            Some(Said::Torn(..)) => ends[0] += 1,
            Some(Said::Corrupt(..)) => ends[1] += 1,
            Some(Said::End(_)) => ends[2] += 1,
            other => panic!("{other:?}"),
        }
        assert_eq!(fed(&file, durable_to, |need| need), whole, "round {round}, as asked");
        let mut sizes = Random(round + 1);
        let most = 1 + sizes.below(20_000);
        let some = fed(&file, durable_to, |need| need.max(sizes.below(most)));
        assert_eq!(some, whole, "round {round}, at least what was asked");
        // Sometimes less than was asked for: it has to ask again.
        let less = fed(&file, durable_to, |need| match sizes.below(3) {
            0 => sizes.below(need + 1),
            _ => need + sizes.below(300),
        });
        assert_eq!(less, whole, "round {round}, at times less than was asked");
    }
    assert!(ends.iter().all(|&count| count > 100), "torn, corrupt, end: {ends:?}");
}

/// The header is asked for first; a length in it is believed only as far as the file goes.
#[test]
fn what_is_asked_for_is_bounded_by_the_file() {
    let (mut file, _) = segment(&mut Random(2), 1, 4);
    let length = file.len() as u64;
    let mut scan = Scan::new(0, length, 0, place());
    assert!(matches!(scan.next(&[]), Step::NeedBytes { len: 256 }));
    assert!(matches!(scan.next(&file[..255]), Step::NeedBytes { len: 256 }));
    assert!(matches!(scan.next(&file[..256]), Step::NeedBytes { len } if len == length));
    assert!(matches!(scan.next(&file[..file.len() - 1]), Step::NeedBytes { len } if len == length));
    assert!(matches!(scan.next(&file), Step::Batch { at: 0, .. }));

    for too_long in [length + 1, BATCH_BYTES_MAX, BATCH_BYTES_MAX + 1, u64::MAX] {
        put_u64(&mut file, 32, too_long);
        let mut scan = Scan::new(0, length, 0, place());
        // The header alone is enough to know that this is no whole batch.
        assert!(matches!(scan.next(&file[..256]), Step::Torn { at: 0, .. }), "{too_long}");
    }
}

/// A scan that begins inside of a file, as after an index entry, counts positions from its start.
#[test]
fn a_scan_may_begin_at_any_batch() {
    let (file, starts) = segment(&mut Random(12), 4, 4);
    for (index, &start) in starts.iter().enumerate() {
        let mut scan = Scan::new(start as u64, file.len() as u64, 0, Default::default());
        for &expected in &starts[index..starts.len() - 1] {
            let step = scan.next(&file[scan.position() as usize..]);
            assert!(matches!(step, Step::Batch { at, .. } if at == expected as u64), "{step:?}");
        }
        let window = &file[scan.position() as usize..];
        assert!(matches!(scan.next(window), Step::End { at } if at == file.len() as u64));
    }
}

/// Bytes behind the file's end are none of its business, and a start behind it is its end.
#[test]
fn the_files_end_is_the_end_of_every_window() {
    let (file, starts) = segment(&mut Random(13), 2, 4);
    let mut scan = Scan::new(0, starts[1] as u64, 0, place());
    assert!(matches!(scan.next(&file), Step::Batch { .. }));
    let rest = &file[starts[1]..];
    assert!(matches!(scan.next(rest), Step::End { at } if at == starts[1] as u64));

    // A header that the file cuts is too short, though the window goes on.
    let cut = starts[1] as u64 + 100;
    let mut scan = Scan::new(starts[1] as u64, cut, 0, Default::default());
    let Step::Torn { why, .. } = scan.next(rest) else { panic!("a cut header") };
    assert_eq!(why.kind, FormatErrorKind::Truncated { needed: 256, have: 100 });

    // Zeros up to the file's end are its end, whatever stands behind it.
    let mut zeros = vec![0; 1000];
    zeros.push(1);
    for length in [1, 255, 256, 257, 1000] {
        let mut scan = Scan::new(0, length, 0, place());
        assert!(matches!(scan.next(&zeros), Step::End { at: 0 }), "{length}");
    }

    let mut beyond = Scan::new(1_000, 999, 0, place());
    assert!(matches!(beyond.next(&file), Step::End { at: 1_000 }));
}
