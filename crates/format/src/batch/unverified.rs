//! Bytes that claim to be a batch. Only verification gives access to the frames.

use crate::checksum::Pieces;
use crate::layout::batch_header;
use crate::{FormatError, FormatErrorKind};

use super::admit::check_batch_checksum;
use super::walk::{Visit, walk};
use super::{BATCH_HEADER_LEN, Batch, BatchHeader};

/// A batch whose header is well-formed and whose bytes are all there; nothing else is known.
#[derive(Debug)]
pub struct UnverifiedBatch<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

impl<'a> UnverifiedBatch<'a> {
    /// Takes `bytes` as one batch, whole.
    ///
    /// # Errors
    /// As [`BatchHeader::parse`]; `Truncated` or `Trailing` when `batch_length` is not the length
    /// of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let (batch, rest) = Self::split_first(bytes)?;
        if !rest.is_empty() {
            let kind = FormatErrorKind::Trailing { extra: rest.len() as u64 };
            return Err(FormatError::new(batch.bytes.len() as u64, "batch_length", kind));
        }
        Ok(batch)
    }

    /// Takes the batch that `bytes` begins with, and gives back what follows it.
    ///
    /// # Errors
    /// As [`BatchHeader::parse`]; `Truncated` when `batch_length` is more than there is.
    pub fn split_first(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), FormatError> {
        let header = BatchHeader::parse(bytes)?;
        if header.batch_length > bytes.len() as u64 {
            let field = batch_header::BATCH_LENGTH;
            let (needed, have) = (header.batch_length, bytes.len() as u64);
            let kind = FormatErrorKind::Truncated { needed, have };
            return Err(FormatError::new(field.at as u64, field.name, kind));
        }
        let (bytes, rest) = bytes.split_at(header.batch_length as usize);
        Ok((UnverifiedBatch { header, bytes }, rest))
    }

    /// The header: its structure holds, its values may be anything.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Verifies everything: the frames tile the batch, reserved bytes are zero, both kinds of
    /// checksums, `offset_delta`s that follow one another from any start (a sliced view keeps its
    /// stored ones), and the structure of user headers.
    ///
    /// # Errors
    /// The first rule that is broken, with its byte counted from the batch's first.
    pub fn verify(self) -> Result<Batch<'a>, FormatError> {
        let mut first_delta = 0;
        self.verified(Found::default(), |visit, found, sums| {
            let delta = u64::from(visit.frame.offset_delta());
            if visit.index == 0 {
                first_delta = delta;
            }
            visit.frame.check_checksum(visit.at)?;
            visit.frame.check_offset_delta(visit.at, first_delta + u64::from(visit.index))?;
            visit.frame.check_user_headers(visit.at)?;
            found.deltas_are_index &= delta == u64::from(visit.index);
            sums.push(visit.frame.checksum_bytes());
            Ok(())
        })
    }

    /// Verifies a batch that rests in a segment: layout, reserved bytes and both kinds of
    /// checksums. The reference server stores `offset_delta`s and user headers as it gets them, so
    /// odd ones are no damage; [`Batch::deltas_are_index`] and [`Batch::user_headers_well_formed`]
    /// tell.
    ///
    /// # Errors
    /// The first rule that is broken, with its byte counted from the batch's first.
    pub fn verify_stored(self) -> Result<Batch<'a>, FormatError> {
        self.verified(Found::default(), |visit, found, sums| {
            visit.frame.check_checksum(visit.at)?;
            found.note(visit);
            sums.push(visit.frame.checksum_bytes());
            Ok(())
        })
    }

    /// [`UnverifiedBatch::verify_stored`] without comparing any checksum: the frames can be walked,
    /// but may hold anything.
    ///
    /// # Errors
    /// The first rule that is broken, with its byte counted from the batch's first.
    pub fn verify_layout(self) -> Result<Batch<'a>, FormatError> {
        let mut found = Found::default();
        walk(self.bytes, self.header.message_count, |visit| {
            found.note(visit);
            Ok(())
        })?;
        Ok(self.batch(found))
    }

    /// [`UnverifiedBatch::verify_stored`] without comparing the frames' checksums: what they state
    /// is what the producer sent, their bytes may be anything.
    ///
    /// # Errors
    /// The first rule that is broken, with its byte counted from the batch's first.
    pub fn verify_batch_checksum(self) -> Result<Batch<'a>, FormatError> {
        self.verified(Found::default(), |visit, found, sums| {
            found.note(visit);
            sums.push(visit.frame.checksum_bytes());
            Ok(())
        })
    }

    /// Walks the frames with `each` and compares the batch checksum with what `each` gathered.
    #[inline(always)]
    fn verified(
        self,
        mut found: Found,
        mut each: impl FnMut(&Visit<'a>, &mut Found, &mut Pieces) -> Result<(), FormatError>,
    ) -> Result<Batch<'a>, FormatError> {
        let mut sums = Pieces::new();
        sums.push(&self.header.covered());
        walk(self.bytes, self.header.message_count, |visit| each(visit, &mut found, &mut sums))?;
        check_batch_checksum(&self.header, sums.finish())?;
        Ok(self.batch(found))
    }

    fn batch(self, found: Found) -> Batch<'a> {
        Batch::new(self.header, self.bytes, found)
    }
}

/// What a walk noticed that is odd but no damage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) deltas_are_index: bool,
    pub(super) user_headers_well_formed: bool,
}

impl Default for Found {
    fn default() -> Self {
        Found { deltas_are_index: true, user_headers_well_formed: true }
    }
}

impl Found {
    #[inline(always)]
    fn note(&mut self, visit: &Visit<'_>) {
        self.deltas_are_index &= visit.frame.offset_delta() == visit.index;
        self.user_headers_well_formed &= visit.frame.check_user_headers(visit.at).is_ok();
    }
}

const _: () = assert!(BATCH_HEADER_LEN == batch_header::LEN);
