//! Finding batches again behind damage: where a header could stand, and how much work to spend.

use crate::scan::first_nonzero;
use crate::{BATCH_BYTES_MAX, BATCH_HEADER_LEN, BatchHeader, FRAME_HEADER_LEN};

/// The first position in `window` at which a whole batch header stands that
/// [`BatchHeader::parse`] accepts. Batches stand at any byte, so every byte is looked at, but runs
/// of zeros cost one pass, not 256. A header found so is a candidate, nothing more.
pub fn next_header(window: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(header) = window.get(at..at + BATCH_HEADER_LEN) {
        if BatchHeader::parse(header).is_ok() {
            return Some(at);
        }
        // No header is all zeros: behind a run of them the next one ends where the run does.
        at += match header[0] == 0 && first_nonzero(header).is_none() {
            false => 1,
            true => first_nonzero(&window[at + BATCH_HEADER_LEN..])? + 1,
        };
    }
    None
}

/// Whether a batch with `base_offset` can be what follows `lost` bytes of damage at whose front
/// `next_offset` was due, if nothing but batches stood there: they held the offsets in between, one
/// at least, and no more than fit. A batch in a payload of the lost ones seldom does.
pub fn may_follow(next_offset: u64, lost: u64, base_offset: u64) -> bool {
    match base_offset.checked_sub(next_offset) {
        Some(0) | None => lost == 0 && base_offset == next_offset,
        Some(offsets) => {
            let frames = offsets.checked_mul(FRAME_HEADER_LEN as u64);
            let bytes = frames.and_then(|frames| frames.checked_add(BATCH_HEADER_LEN as u64));
            bytes.is_some_and(|bytes| bytes <= lost)
        }
    }
}

/// Work that searches in one file may spend on candidates that turn out to be no batch, in bytes.
///
/// Bytes that look like a header need not be one, and each costs up to a batch of checksums. In
/// files as they happen the candidates are damaged batches, which do not overlap, so the file's
/// length is enough; the factor of four and the constant leave room for chance. A file made to
/// cost more ends the search, and whoever searched has to say so.
#[derive(Debug, Clone)]
pub struct SearchBudget {
    left: u64,
}

impl SearchBudget {
    /// The budget of a file of `len` bytes.
    pub fn of_file(len: u64) -> Self {
        SearchBudget { left: len.saturating_mul(4).saturating_add(BATCH_BYTES_MAX) }
    }

    /// Charges `bytes` of work, never less than a header's.
    pub fn charge(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes.max(BATCH_HEADER_LEN as u64));
    }

    /// True where the search has to end.
    pub fn is_used_up(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchBuilder, Message};

    #[test]
    fn a_header_is_found_at_any_byte_and_behind_any_zeros() {
        let mut builder = BatchBuilder::new();
        builder.push(Message::new(b"x")).unwrap();
        let batch = builder.finish().unwrap();
        for before in [0, 1, 7, 255, 256, 257, 700, 5_000] {
            for filler in [0, 1, 0xff] {
                let mut window = vec![filler; before];
                window.extend_from_slice(&batch);
                // Shifted by a zero byte a header can still look like one: candidates, no more.
                let mut at = 0;
                while at < before {
                    let found = next_header(&window[at..]).map(|place| at + place);
                    at = found.expect("the header is there") + usize::from(found != Some(before));
                    assert!(at <= before, "{before} x {filler}: passed over");
                }
                assert_eq!(next_header(&window[before..before + BATCH_HEADER_LEN - 1]), None);
            }
        }
        assert_eq!(next_header(&[0; 10_000]), None);
        assert_eq!(next_header(&[]), None);
    }

    #[test]
    fn a_gap_holds_one_offset_at_least_and_no_more_than_fit() {
        let one = (BATCH_HEADER_LEN + FRAME_HEADER_LEN) as u64;
        for (lost, base, may) in [
            (0, 10, true),
            (0, 11, false),
            (1_000, 10, false),
            (1_000, 9, false),
            (one - 1, 11, false),
            (one, 11, true),
            (one, 12, false),
            (one + 48, 12, true),
            (u64::MAX, u64::MAX, false),
        ] {
            assert_eq!(may_follow(10, lost, base), may, "{lost} {base}");
        }
    }

    #[test]
    fn every_candidate_costs_something() {
        let mut budget = SearchBudget::of_file(0);
        for _ in 0..BATCH_BYTES_MAX / BATCH_HEADER_LEN as u64 {
            assert!(!budget.is_used_up());
            budget.charge(0);
        }
        assert!(budget.is_used_up());
    }
}
