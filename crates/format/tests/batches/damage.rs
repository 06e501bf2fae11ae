//! Damaged segments: every one ends in one `Torn`, `Corrupt` or `End` where the last whole batch
//! does, and nothing before it is lost. The shapes are those in which other logs have failed.

use corelog_format::{Expect, FormatErrorKind as Kind, Step, scan};

use crate::make::{self, Random, put_u32, put_u64, reseal};

/// A segment of `count` batches and where each begins; the last entry is its end.
pub(crate) fn segment(random: &mut Random, count: u64, messages_max: u64) -> (Vec<u8>, Vec<usize>) {
    let (mut file, mut starts, mut offset) = (Vec::new(), vec![0], 100);
    for index in 0..count {
        let batch = make::stamped(make::random(random, messages_max), 3, offset, 1000 + index);
        offset += u64::from(make::u32_at(&batch, 48));
        file.extend_from_slice(&batch);
        starts.push(file.len());
    }
    (file, starts)
}

pub(crate) fn place() -> Expect {
    Expect { partition_id: Some(3), next_offset: Some(100), ..Expect::default() }
}

/// Scans and checks what holds for every input: whole batches stand back to back from byte 0, and
/// exactly one last word follows. Returns how many batches, and that word.
fn outcome(file: &[u8], durable_to: u64) -> (usize, Step<'_>) {
    let steps: Vec<Step<'_>> = scan(file, durable_to, place()).collect();
    let (last, batches) = steps.split_last().expect("a last word");
    let mut end = 0;
    for step in batches {
        let Step::Batch { at, batch, .. } = step else { panic!("{step:?} is not the last word") };
        assert_eq!(*at, end);
        assert_eq!(batch.bytes(), &file[end as usize..][..batch.bytes().len()]);
        end += batch.bytes().len() as u64;
    }
    let (Step::Torn { at, .. } | Step::Corrupt { at, .. } | Step::End { at }) = last else {
        panic!("{last:?} cannot be the last word");
    };
    assert_eq!(*at, end, "the last word is about the byte behind the last batch");
    (batches.len(), *last)
}

/// REC-5, REC-26: a last batch over several pages, of which any subset was not written. Tried with
/// and without zeros that were allocated behind it.
#[test]
fn any_missing_pages_of_the_last_batch_are_a_torn_tail() {
    let mut random = Random(5);
    let (head, starts) = segment(&mut random, 2, 8);
    let mut builder = corelog_format::BatchBuilder::new();
    for _ in 0..10 {
        let payload: Vec<u8> = random.bytes(1800).into_iter().map(|byte| byte | 1).collect();
        builder.push(corelog_format::Message::new(&payload)).expect("it fits");
    }
    let offset =
        100 + u64::from(make::u32_at(&head, 48)) + u64::from(make::u32_at(&head[starts[1]..], 48));
    let last = make::stamped(builder.finish().expect("ten messages"), 3, offset, 2000);
    let start = head.len();
    let whole = [&head[..], &last[..]].concat();
    assert_eq!(outcome(&whole, 0).0, 3);

    for page in [4096, 512] {
        let pages = start / page..whole.len().div_ceil(page);
        assert!(pages.len() >= 5, "the batch spans several pages");
        let subsets = if page == 4096 { 1 << pages.len() } else { 4000 };
        for subset in 1..subsets {
            let lost = if page == 4096 { subset } else { random.next() | 1 << (subset % 36) };
            let mut file = whole.clone();
            for (index, page_index) in pages.clone().enumerate() {
                if lost >> index & 1 == 1 {
                    let end = ((page_index + 1) * page).min(file.len());
                    // What stood in the page before this batch was durable, or rewritten with it.
                    file[(page_index * page).max(start)..end].fill(0);
                }
            }
            let intact = file == whole;
            for zeros in [0, 3 * 4096 - whole.len() % 4096] {
                file.resize(whole.len() + zeros, 0);
                let (batches, last) = outcome(&file, start as u64);
                if intact {
                    assert_eq!(batches, 3, "nothing was lost");
                } else if file[start..].iter().all(|&byte| byte == 0) {
                    assert_eq!((batches, end_of(last)), (2, Some(start as u64)));
                } else {
                    assert_eq!(batches, 2, "{page} {lost:b}");
                    assert!(matches!(last, Step::Torn { .. }), "{page} {lost:b}: {last:?}");
                }
                file.truncate(whole.len());
            }
        }
    }
}

fn end_of(step: Step<'_>) -> Option<u64> {
    match step {
        Step::End { at } => Some(at),
        _ => None,
    }
}

/// REC-8, REC-14: a last header whose length is garbage, the top bit included, with the batch
/// checksum left as it was and made right.
#[test]
fn garbage_lengths_are_a_torn_tail() {
    let (head, starts) = segment(&mut Random(8), 2, 6);
    let start = starts[1];
    let room = (head.len() - start) as u64;
    let lengths = [
        0,
        1,
        255,
        256,
        303,
        room - 1,
        room + 1,
        0x7fff_ffff,
        0xffff_ffff,
        1 << 31,
        1 << 32,
        head.len() as u64 + 1,
        64 << 20,
        (64 << 20) + 1,
        1 << 63,
        (1 << 63) | room,
        u64::MAX,
        u64::MAX - start as u64,
        u64::MAX - start as u64 + 1,
    ];
    for length in lengths {
        for right_checksum in [false, true] {
            let mut file = head.clone();
            put_u64(&mut file, start + 32, length);
            if right_checksum {
                reseal(&mut file[start..]);
            }
            let (batches, last) = outcome(&file, start as u64);
            assert_eq!(batches, 1, "{length}");
            assert!(matches!(last, Step::Torn { .. }), "{length}: {last:?}");
        }
    }
}

/// REC-8 for the count: it decides nothing before it was held against the length.
#[test]
fn garbage_counts_are_a_torn_tail() {
    let (head, starts) = segment(&mut Random(9), 2, 6);
    let start = starts[1];
    let count = make::u32_at(&head, start + 48);
    for found in [0, count - 1, count + 1, 0x7fff_ffff, 1 << 31, u32::MAX] {
        let mut file = head.clone();
        put_u32(&mut file, start + 48, found);
        reseal(&mut file[start..]);
        let (batches, last) = outcome(&file, start as u64);
        assert_eq!(batches, 1, "{found}");
        assert!(matches!(last, Step::Torn { .. }), "{found}: {last:?}");
    }
}

/// REC-34: the smallest batches there are, and the one that is too small.
#[test]
fn a_batch_of_no_messages_is_none_and_of_one_empty_message_is_one() {
    let mut builder = corelog_format::BatchBuilder::new();
    builder.push(corelog_format::Message::new(b"")).expect("it fits");
    let smallest = make::stamped(builder.finish().expect("one message"), 3, 100, 1);
    assert_eq!(smallest.len(), 256 + 48);
    assert_eq!(outcome(&smallest, 0).0, 1);

    let mut empty = smallest[..256].to_vec();
    put_u64(&mut empty, 32, 256);
    put_u32(&mut empty, 48, 0);
    reseal(&mut empty);
    let mut next = smallest.clone();
    put_u64(&mut next, 8, 101);
    put_u64(&mut next, 16, 2);
    reseal(&mut next);
    for (file, batches) in [
        (empty.clone(), 0),
        ([&smallest[..], &empty].concat(), 1),
        ([&smallest[..], &empty, &next].concat(), 1),
        ([&smallest[..], &next].concat(), 2),
    ] {
        let (found, last) = outcome(&file, 0);
        assert_eq!(found, batches);
        assert_eq!(matches!(last, Step::Torn { .. }), file.len() > batches * smallest.len());
    }
}

/// REC-35: a file cut at every byte, alone and with zeros behind the cut.
#[test]
fn a_file_cut_anywhere_keeps_what_is_whole() {
    let (file, starts) = segment(&mut Random(35), 3, 3);
    for cut in 0..=file.len() {
        let whole = starts.iter().filter(|&&start| start <= cut).count() - 1;
        let (batches, last) = outcome(&file[..cut], 0);
        assert_eq!(batches, whole, "cut at {cut}");
        assert_eq!(end_of(last).is_some(), starts.contains(&cut), "cut at {cut}: {last:?}");

        let mut padded = file[..cut].to_vec();
        padded.resize(cut + 700, 0);
        let rest_is_zero = file[starts[whole]..cut].iter().all(|&byte| byte == 0);
        let (batches, last) = outcome(&padded, 0);
        // A batch that ends in zeros is whole again when zeros follow where it was cut.
        let batches_expected = starts
            .iter()
            .filter(|&&start| start <= cut || file[cut..start].iter().all(|&byte| byte == 0));
        assert_eq!(batches, batches_expected.count() - 1, "cut at {cut}, padded");
        if batches == whole {
            assert_eq!(end_of(last).is_some(), rest_is_zero, "cut at {cut}, padded: {last:?}");
        }
    }
}

/// Zeros, then something: the end was not clean, and the tail begins at the first zero.
#[test]
fn zeros_followed_by_anything_are_a_torn_tail() {
    let (file, _) = segment(&mut Random(4), 2, 3);
    for zeros in [1, 255, 256, 257, 4096, 300_000] {
        for follower in [&[1][..], &file] {
            let mut bytes = file.clone();
            bytes.resize(file.len() + zeros, 0);
            bytes.extend_from_slice(follower);
            let (batches, last) = outcome(&bytes, 0);
            let Step::Torn { at, why } = last else { panic!("{zeros}: {last:?}") };
            assert_eq!((batches, at), (2, file.len() as u64));
            if zeros >= 256 {
                let first = follower.iter().position(|&byte| byte != 0).expect("not only zeros");
                assert_eq!(why.field, "zero_tail");
                assert_eq!(why.at, (file.len() + zeros + first) as u64);
            }
            bytes.truncate(file.len() + zeros);
            assert_eq!(end_of(outcome(&bytes, 0).1), Some(file.len() as u64));
        }
    }
}

/// Damage is corruption below what was durable, and a torn tail from there on.
#[test]
fn what_was_durable_decides_the_word() {
    let (file, starts) = segment(&mut Random(6), 4, 5);
    let damaged = starts[2];
    let mut broken = file.clone();
    broken[damaged + 256 + 8] ^= 1;
    for (durable_to, corrupt) in [
        (0, false),
        (damaged as u64, false),
        (damaged as u64 + 1, true),
        (file.len() as u64, true),
        (u64::MAX, true),
    ] {
        let (batches, last) = outcome(&broken, durable_to);
        assert_eq!(batches, 2);
        let (Step::Torn { why, .. } | Step::Corrupt { why, .. }) = last else { panic!("{last:?}") };
        assert_eq!(matches!(last, Step::Corrupt { .. }), corrupt, "durable to {durable_to}");
        assert!(matches!(why.kind, Kind::Checksum { .. }));
        assert_eq!(why.at, damaged as u64 + 256, "positions are the file's: {why}");
    }
}

/// The end is no end where more was durable: a file that lost its tail, or zeros in its place.
#[test]
fn what_was_durable_and_is_missing_is_corruption() {
    let (file, starts) = segment(&mut Random(6), 4, 5);
    let cut = starts[2];
    let mut zeroed = file[..cut].to_vec();
    zeroed.resize(file.len(), 0);
    for (bytes, durable_to, corrupt) in [
        (&file[..cut], cut as u64, false),
        (&file[..cut], cut as u64 + 1, true),
        (&file[..cut], file.len() as u64, true),
        // Whatever length it has, all of it was durable: then it is all there.
        (&file[..cut], u64::MAX, false),
        (&zeroed, cut as u64, false),
        (&zeroed, cut as u64 + 1, true),
        (&zeroed, u64::MAX, true),
        (&file[..0], 0, false),
        (&file[..0], 1, true),
    ] {
        let (_, last) = outcome(bytes, durable_to);
        assert_eq!(matches!(last, Step::Corrupt { .. }), corrupt, "{durable_to}: {last:?}");
        assert_eq!(end_of(last).is_some(), !corrupt, "{durable_to}: {last:?}");
    }
}

/// REC-22: random damage to the end of a file. Never a panic, never an endless scan, and nothing
/// is lost that stands before the damage.
#[test]
fn random_damage_never_costs_what_stands_before_it() {
    let mut random = Random(22);
    let mut torn = 0;
    for round in 0..10_000 {
        let (mut file, starts) = segment(&mut random, 1 + round % 4, 3);
        let from = file.len() - random.below(file.len().min(8192) as u64 + 1) as usize;
        let length = 1 + random.below(512) as usize;
        let to = (from + length).min(file.len());
        if random.below(2) == 0 {
            let noise = random.bytes(to - from);
            file[from..to].copy_from_slice(&noise);
        } else {
            file[from..to].iter_mut().for_each(|byte| *byte ^= 1 << (length % 8));
        }
        let untouched = starts.iter().filter(|&&start| start <= from).count() - 1;
        let (batches, last) = outcome(&file, 0);
        assert!(batches >= untouched, "round {round}: {batches} of {untouched}");
        torn += u64::from(matches!(last, Step::Torn { .. }));
    }
    assert!(torn > 9_000, "{torn} of 10,000 files were damaged");
}
