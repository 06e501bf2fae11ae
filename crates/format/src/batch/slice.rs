//! A poll's view of a part of a batch: a new header over frames that stay as they are stored.

use std::ops::Range;

use crate::checksum::Pieces;

use super::{BATCH_HEADER_LEN, Batch, BatchHeader};

/// A header of its own and the frames it goes with; put together they are a batch that verifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The new header: `batch_length`, `message_count` and `batch_checksum` fit the frames, all
    /// else is the stored batch's.
    pub header: [u8; BATCH_HEADER_LEN],
    /// Where the frames stand in the batch's bytes.
    pub frames: Range<usize>,
    /// How many frames these are.
    pub message_count: u32,
}

impl Batch<'_> {
    /// A view of the frames with these indexes (not offsets); `None` when the range is empty or
    /// ends behind the last frame.
    ///
    /// Every frame byte stays as stored, `offset_delta` and checksum included, so nothing but the
    /// frames' headers is read. Asked for all frames it gives the stored header back, save that a
    /// caller who wants the whole batch does not need it.
    pub fn slice(&self, frames: Range<u32>) -> Option<Slice> {
        if frames.is_empty() || frames.end > self.header().message_count {
            return None;
        }
        let message_count = frames.end - frames.start;
        let mut walked = self.frames();
        let before: usize =
            walked.by_ref().take(frames.start as usize).map(|frame| frame.bytes().len()).sum();
        let selected = walked.take(message_count as usize);
        let bytes: usize = selected.clone().map(|frame| frame.bytes().len()).sum();

        let mut header = BatchHeader {
            batch_length: (BATCH_HEADER_LEN + bytes) as u64,
            message_count,
            ..*self.header()
        };
        let mut sums = Pieces::new();
        sums.push(&header.covered());
        selected.for_each(|frame| sums.push(frame.checksum_bytes()));
        header.batch_checksum = sums.finish();

        let start = BATCH_HEADER_LEN + before;
        Some(Slice { header: header.encode(), frames: start..start + bytes, message_count })
    }
}
