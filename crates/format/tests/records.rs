//! The two-slot records: which slot counts, what damage does, and their bytes for all time.

use corelog_format::checksum::xxh3;
use corelog_format::{
    ClockRecord, FormatErrorKind as Kind, Manifest, Mark, SLOT_LEN, Slot, SlotError,
};

const ZEROS: [u8; SLOT_LEN] = [0; SLOT_LEN];

fn manifest(sequence: u64) -> Manifest {
    Manifest {
        sequence,
        incarnation: 0x0102,
        first_offset: 7,
        adopted_end: 0,
        mark: Mark {
            segment: 5,
            position: 1 << 33,
            next_offset: 9_000_000_000,
            last_timestamp: 1_700_000_000_000_500,
        },
    }
}

/// Version `version` of a slot: what a release to come might have written.
fn with_version(mut slot: [u8; SLOT_LEN], version: u32) -> [u8; SLOT_LEN] {
    slot[16..20].copy_from_slice(&version.to_le_bytes());
    reseal(&mut slot);
    slot
}

fn reseal(slot: &mut [u8; SLOT_LEN]) {
    let sum = xxh3(&slot[16..]);
    slot[8..16].copy_from_slice(&sum.to_le_bytes());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Version 1, byte for byte: releases to come must read this.
#[test]
fn version_1_of_the_manifest_is_fixed() {
    let slot = manifest(3).encode();
    let expected = [
        "434c4f474d414e49",
        "475b5365a2b430dc",
        "0100000000000000",
        "0300000000000000",
        "0201000000000000",
        "0700000000000000",
        "0500000000000000",
        "0000000002000000",
        "001a711802000000",
        "f4411e18240a0600",
    ];
    assert_eq!(hex(&slot[..80]), expected.concat());
    assert_eq!(slot[80..], ZEROS[80..]);
    assert_eq!(Manifest::pick(&slot, &[]), Ok(Some((manifest(3), Slot::A))));
    let adopted = Manifest { adopted_end: 0x0304, ..manifest(3) };
    let slot = adopted.encode();
    assert_eq!((hex(&slot[80..88]), &slot[88..]), ("0403000000000000".into(), &ZEROS[88..]));
    assert_eq!(Manifest::pick(&slot, &[]), Ok(Some((adopted, Slot::A))));
}

/// Version 1, byte for byte: releases to come must read this.
#[test]
fn version_1_of_the_clock_record_is_fixed() {
    let record = ClockRecord { sequence: 258, ceiling_us: 1_700_000_000_000_500 };
    let slot = record.encode();
    let expected = [
        "434c4f47434c434b",
        "7bc1da579bee0ca7",
        "0100000000000000",
        "0201000000000000",
        "f4411e18240a0600",
    ];
    assert_eq!(hex(&slot[..40]), expected.concat());
    assert_eq!(slot[40..], ZEROS[40..]);
    assert_eq!(ClockRecord::pick(&[], &slot), Ok(Some((record, Slot::B))));
}

#[test]
fn never_written_is_no_record() {
    for a in [&[][..], &ZEROS, &ZEROS[..100]] {
        for b in [&[][..], &ZEROS] {
            assert_eq!(Manifest::pick(a, b), Ok(None));
            assert_eq!(ClockRecord::pick(a, b), Ok(None));
        }
    }
}

#[test]
fn the_higher_sequence_counts_and_the_other_slot_is_next() {
    for (a, b, slot) in [
        (1, 2, Slot::B),
        (2, 1, Slot::A),
        (3, 3, Slot::A),
        (u64::MAX, 0, Slot::A),
        (0, u64::MAX, Slot::B),
    ] {
        let picked = Manifest::pick(&manifest(a).encode(), &manifest(b).encode());
        assert_eq!(picked, Ok(Some((manifest(a.max(b)), slot))));
    }
    assert_eq!((Slot::A.position(), Slot::B.position()), (0, 4096));
    assert_eq!((Slot::A.other(), Slot::B.other()), (Slot::B, Slot::A));
    let only_b = Manifest::pick(&ZEROS, &manifest(4).encode());
    assert_eq!(only_b, Ok(Some((manifest(4), Slot::B))));
}

/// A write of the newer slot that stopped after any number of bytes leaves the older one, or is
/// the newer one already: its content stands in the first sector, and zeros follow on both sides.
#[test]
fn a_torn_slot_falls_back_to_the_other() {
    let (old, older, new) = (manifest(8), manifest(7).encode(), manifest(9).encode());
    for written in 0..=SLOT_LEN {
        let mut torn = older;
        torn[..written].copy_from_slice(&new[..written]);
        let (picked, slot) = Manifest::pick(&torn, &old.encode())
            .expect("slot B is whole")
            .expect("slot B was written");
        if torn == new {
            assert_eq!((picked, slot), (manifest(9), Slot::A), "{written} bytes");
        } else {
            assert_eq!((picked, slot), (old, Slot::B), "{written} bytes");
        }
        assert!(written < 512 || torn == new, "the content stands in the first sector");
    }
}

#[test]
fn every_flipped_bit_of_a_slot_is_seen() {
    let (good, older) = (manifest(9).encode(), manifest(8).encode());
    for bit in 0..SLOT_LEN * 8 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        let picked = Manifest::pick(&older, &bad);
        assert_eq!(picked, Ok(Some((manifest(8), Slot::A))), "bit {bit}");
    }
}

#[track_caller]
fn both_damaged(a: &[u8], b: &[u8]) -> [(u64, &'static str, Kind); 2] {
    match Manifest::pick(a, b) {
        Err(SlotError::BothDamaged { record: "manifest", faults }) => {
            faults.map(|fault| (fault.at, fault.field, fault.kind))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_of_both_slots_is_an_error_that_says_what_is_wrong() {
    let good = manifest(9).encode();
    let (mut magic, mut sum, mut tail) = (good, good, good);
    magic[0] = b'X';
    sum[40] ^= 1;
    tail[100] = 5;
    reseal(&mut tail);
    let faults = both_damaged(&magic, &sum);
    assert_eq!((faults[0].0, faults[0].1), (0, "magic"));
    assert_eq!((faults[1].0, faults[1].1), (8, "checksum"));
    assert!(matches!(faults[1].2, Kind::Checksum { .. }));

    let long = [&good[..], &[0]].concat();
    let faults = both_damaged(&long, &tail);
    assert_eq!(faults[0].2, Kind::Trailing { extra: 1 });
    assert_eq!(faults[1], (100, "reserved", Kind::NotZero { found: 5 }));

    // One slot was never written and the other cannot be read: what was known is lost.
    let faults = both_damaged(&good[..100], &ZEROS);
    assert_eq!(faults[0].2, Kind::Truncated { needed: 4096, have: 100 });
    assert_eq!(faults[1].2, Kind::Truncated { needed: 4096, have: 0 });
    let message = Manifest::pick(&magic, &sum).expect_err("both damaged").to_string();
    assert!(message.contains("manifest") && message.contains("slot B: checksum at byte 8"));
}

#[test]
fn one_record_is_not_the_other() {
    let clock = ClockRecord { sequence: 1, ceiling_us: 5 }.encode();
    assert_eq!(both_damaged(&clock, &clock)[0].1, "magic");
    let error = ClockRecord::pick(&manifest(1).encode(), &[]).expect_err("a manifest");
    assert!(error.to_string().contains("clock record"), "{error}");
}

/// A newer release wrote one of the slots: the other one is not the newest truth any more.
#[test]
fn an_unknown_version_is_refused_whatever_the_other_slot_says() {
    let (old, new) = (manifest(8).encode(), manifest(9).encode());
    for version in [0, 2, 77, u32::MAX] {
        let unknown = with_version(new, version);
        for (a, b) in [(&old, &unknown), (&unknown, &old), (&unknown, &ZEROS), (&unknown, &unknown)]
        {
            let expected = SlotError::UnknownVersion { record: "manifest", found: version };
            assert_eq!(Manifest::pick(a, b), Err(expected));
        }
        // But bytes that are damaged say nothing about versions.
        let mut damaged = unknown;
        damaged[4000] = 1;
        assert_eq!(Manifest::pick(&old, &damaged), Ok(Some((manifest(8), Slot::A))));
    }
}
