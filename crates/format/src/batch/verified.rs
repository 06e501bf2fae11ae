//! A verified batch and its frames.

use std::iter::FusedIterator;

use super::unverified::Found;
use super::{BATCH_HEADER_LEN, BatchHeader, Frame};

/// A batch whose verification [`super::UnverifiedBatch`] did; its frames can be read.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
    found: Found,
}

impl<'a> Batch<'a> {
    pub(super) fn new(header: BatchHeader, bytes: &'a [u8], found: Found) -> Self {
        Batch { header, bytes, found }
    }

    /// The header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch, header included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The frames in order.
    pub fn frames(&self) -> Frames<'a> {
        let rest = &self.bytes[BATCH_HEADER_LEN..];
        Frames { rest, left: self.header.message_count }
    }

    /// Whether the `offset_delta`s are 0, 1, 2, ... as producers must send them. Not so in a
    /// sliced view, and in a segment of the reference server perhaps not either.
    pub fn deltas_are_index(&self) -> bool {
        self.found.deltas_are_index
    }

    /// Whether every user headers block has the structure that the specification asks for. Only a
    /// batch that the reference server stored can say no.
    pub fn user_headers_well_formed(&self) -> bool {
        self.found.user_headers_well_formed
    }

    /// Offset of the first message: `base_offset` plus the first frame's `offset_delta`, or
    /// `u64::MAX` where the sum is more than that.
    pub fn first_offset(&self) -> u64 {
        let delta = self.frames().next().map_or(0, |frame| frame.offset_delta());
        self.header.base_offset.saturating_add(u64::from(delta))
    }
}

/// The frames of a verified batch, in order.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    #[inline]
    fn next(&mut self) -> Option<Frame<'a>> {
        self.left = self.left.checked_sub(1)?;
        match Frame::split_first(self.rest, 0) {
            Ok((frame, rest)) => {
                self.rest = rest;
                Some(frame)
            }
            Err(error) => unreachable!("verification walked these frames already: {error}"),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Frames<'_> {}
impl FusedIterator for Frames<'_> {}
