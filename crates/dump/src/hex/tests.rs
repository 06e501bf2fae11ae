//! A file that is cut while a batch is looked for in it: what is found stood in the file.

use std::fs::File;

use super::*;
use crate::testing::{Temporary, batch};

/// Batches of one message each, of partition 0 from offset 0 on.
fn log(payloads: &[&[u8]]) -> Vec<u8> {
    payloads.iter().zip(0..).flat_map(|(payload, offset)| batch(offset, &[payload])).collect()
}

/// What `hex --offset` finds in a file of `bytes` that is `len` bytes long when it is looked at.
fn found(bytes: &[u8], len: usize, map: bool, offset: u64) -> Result<Option<Found>, Failure> {
    let file = Temporary::with(&format!("hex-{len}-{map}-{offset}"), bytes);
    let access = Access { map, ..Access::default() };
    let path = file.0.clone();
    let segment = Segment { path, named_offset: Some(0), links: Links::Refuse };
    let mut source = Source::open(&segment.path, segment.links, access).expect("opened");
    File::options().write(true).open(&file.0).and_then(|f| f.set_len(len as u64)).expect("cut");
    let selection = Selection { offsets: offset..offset + 1, ..Selection::everything() };
    let known = Known {
        partition_id: Some(0),
        first_offset: Some(0),
        durable_to: 0,
        time_rises_from: u64::MAX,
    };
    let hex = Hex { access, segment: &segment, target: Target::Offset(offset) };
    source.again_if_cut(|source| hex.find(source, known, &selection))
}

#[test]
fn what_is_left_of_a_cut_file_is_found_and_what_is_gone_is_not() {
    // Mapped pages behind the cut are gone; the second batch ends in another page than it begins.
    let bytes = log(&[b"first", &[7; 20_000], &[8; 20_000]]);
    let second = 256 + 48 + 5;
    let third = second + 256 + 48 + 20_000;
    for map in [true, false] {
        // The cut is behind what was asked for: it is shown, from a second look.
        for len in [third, third + 9_000] {
            let found = found(&bytes, len, map, 1).expect("it is there").expect("it is found");
            assert!(matches!(found.is, Is::Batch { base_offset: 1 }), "{map} {len}");
            assert_eq!((found.at, &found.bytes[..]), (second as u64, &bytes[second..third]));
        }
        // The cut is in it. Read, there is half a batch; mapped, zeros were given for the rest.
        let half = found(&bytes, second + 9_000, map, 1);
        match (map, half) {
            (true, Err(Failure::Shrank { was, .. })) => assert_eq!(was, bytes.len() as u64),
            (false, Ok(Some(half))) => {
                assert!(matches!(half.is, Is::Damage { from, .. } if from == second as u64));
                assert_eq!(half.bytes, &bytes[second..second + 9_000]);
            }
            (_, half) => panic!("{map}: {:?}", half.map(|found| found.map(|found| found.at))),
        }
        // It took all of it.
        let gone = found(&bytes, second, map, 1);
        let is_gone =
            matches!((map, &gone), (true, Err(Failure::Shrank { .. })) | (false, Ok(None)));
        assert!(is_gone, "{map}: {:?}", gone.map(|found| found.map(|found| found.at)));
    }
}
