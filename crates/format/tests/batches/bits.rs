//! No single flipped bit of a batch goes unnoticed: every byte is covered by a checksum or must be
//! zero.

use corelog_format::{Expect, FormatError, Step, UnverifiedBatch, admit, scan};

use crate::make;

/// Calls `judge` with every batch that differs from `batch` in one bit.
fn each_flip(batch: &[u8], mut judge: impl FnMut(&[u8], usize)) {
    let mut flipped = batch.to_vec();
    for bit in 0..batch.len() * 8 {
        flipped[bit / 8] ^= 1 << (bit % 8);
        judge(&flipped, bit);
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
}

fn verify(bytes: &[u8]) -> Result<(), FormatError> {
    UnverifiedBatch::new(bytes).and_then(UnverifiedBatch::verify).map(drop)
}

fn stored_verify(bytes: &[u8]) -> Result<(), FormatError> {
    UnverifiedBatch::new(bytes).and_then(UnverifiedBatch::verify_stored).map(drop)
}

#[test]
fn verification_sees_every_flipped_bit() {
    let stored = make::stamped(make::small(), 3, 42, 1_700_000_000_000_500);
    verify(&stored).expect("unchanged");
    stored_verify(&stored).expect("unchanged");
    each_flip(&stored, |bytes, bit| {
        assert!(verify(bytes).is_err(), "bit {bit}");
        assert!(stored_verify(bytes).is_err(), "bit {bit}");
    });
}

#[test]
fn admission_sees_every_flipped_bit() {
    each_flip(&make::small(), |bytes, bit| assert!(admit(bytes).is_err(), "bit {bit}"));
}

#[test]
fn a_scan_sees_every_flipped_bit() {
    let stored = make::stamped(make::small(), 3, 42, 1_700_000_000_000_500);
    each_flip(&stored, |bytes, bit| {
        let steps: Vec<_> = scan(bytes, 0, Expect::default()).collect();
        assert!(matches!(steps[..], [Step::Torn { at: 0, .. }]), "bit {bit}: {steps:?}");
    });
}
