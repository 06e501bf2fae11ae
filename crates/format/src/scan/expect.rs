//! What a batch's place in the log demands of it, beyond being a batch.

use crate::layout::{Field, batch_header};
use crate::{BatchHeader, FormatError, FormatErrorKind};

/// What the place in the log demands of the next batch. The scan carries it on as it goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expect {
    /// The partition whose file this is; `None`: whatever the first batch says.
    pub partition_id: Option<u64>,
    /// `base_offset` of the next batch; `None`: whatever the first batch says.
    pub next_offset: Option<u64>,
    /// `base_timestamp` that the next batch has to be later than, in microseconds.
    pub after_timestamp: Option<u64>,
    /// Set for files of the reference server: time that does not increase is then a finding
    /// ([`Findings::time_went_back`]), not damage.
    pub time_may_go_back: bool,
}

/// Oddities of a batch that are no damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The `offset_delta`s are not 0, 1, 2, ...: stored as the reference server got them.
    pub deltas_not_index: bool,
    /// `base_timestamp` is not later than that of the batch before.
    pub time_went_back: bool,
    /// A user headers block does not have the structure that the specification asks for.
    pub user_headers_malformed: bool,
}

impl Expect {
    /// Carries on behind a batch that stands here.
    pub(super) fn follow(&mut self, header: &BatchHeader) {
        self.partition_id = Some(header.partition_id);
        self.next_offset = header.end_offset();
        self.after_timestamp = Some(header.base_timestamp);
    }

    /// Whether a verified batch with this header may stand here; `Ok(true)` when time did not
    /// increase and need not.
    pub(super) fn check(&self, header: &BatchHeader) -> Result<bool, FormatError> {
        expect_equal(self.partition_id, header.partition_id, &batch_header::PARTITION_ID)?;
        expect_equal(self.next_offset, header.base_offset, &batch_header::BASE_OFFSET)?;
        if header.end_offset().is_none() {
            let max = u64::MAX - u64::from(header.message_count);
            let kind = FormatErrorKind::OutOfRange { found: header.base_offset, min: 0, max };
            return Err(mismatch(&batch_header::BASE_OFFSET, kind));
        }
        let time_went_back =
            self.after_timestamp.is_some_and(|after| header.base_timestamp <= after);
        if time_went_back && !self.time_may_go_back {
            let expected = self.after_timestamp.map_or(0, |after| after.saturating_add(1));
            let kind = FormatErrorKind::Mismatch { expected, found: header.base_timestamp };
            return Err(mismatch(&batch_header::BASE_TIMESTAMP, kind));
        }
        Ok(time_went_back)
    }
}

fn expect_equal(expected: Option<u64>, found: u64, field: &Field) -> Result<(), FormatError> {
    match expected {
        Some(expected) if expected != found => {
            Err(mismatch(field, FormatErrorKind::Mismatch { expected, found }))
        }
        _ => Ok(()),
    }
}

fn mismatch(field: &Field, kind: FormatErrorKind) -> FormatError {
    FormatError::new(field.at as u64, field.name, kind)
}
