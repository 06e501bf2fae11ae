//! One message frame: 48 header bytes, the payload, then the user headers.

use crate::layout::frame_header as at;
use crate::{FormatError, FormatErrorKind, UserHeaders, checksum, tlv};

/// Bytes of a message frame's header.
pub const FRAME_HEADER_LEN: usize = at::LEN;

/// A frame of a verified batch, borrowed from its bytes.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// The whole frame; the two lengths of its header were checked against it.
    bytes: &'a [u8],
    payload_end: usize,
}

impl<'a> Frame<'a> {
    /// Takes the first frame off `rest` after checking that it fits and that its reserved bytes
    /// are zero. `base` is where `rest` begins in the batch; errors count from the batch's start.
    #[inline(always)]
    pub(super) fn split_first(
        rest: &'a [u8],
        base: usize,
    ) -> Result<(Self, &'a [u8]), FormatError> {
        let Some(header) = rest.first_chunk::<FRAME_HEADER_LEN>() else {
            return Err(no_header(rest.len(), base));
        };
        let payload_length = at::PAYLOAD_LENGTH.u32(header);
        let user_headers_length = at::USER_HEADERS_LENGTH.u32(header);
        // Two u32 and 48 cannot overflow a u64, and usize is 64 bits wide wherever io_uring is.
        let payload_end = FRAME_HEADER_LEN as u64 + u64::from(payload_length);
        let end = payload_end + u64::from(user_headers_length);
        if end > rest.len() as u64 {
            return Err(too_long(header, rest.len(), base));
        }
        if at::RESERVED.u64(header) != 0 {
            return Err(not_zero(header, base));
        }
        let (bytes, rest) = rest.split_at(end as usize);
        Ok((Frame { bytes, payload_end: payload_end as usize }, rest))
    }

    #[inline(always)]
    fn header(&self) -> &'a [u8; FRAME_HEADER_LEN] {
        match self.bytes.first_chunk() {
            Some(header) => header,
            None => unreachable!("split_first gives no frame without its header"),
        }
    }

    /// Compares the stored checksum with the frame's bytes.
    #[inline(always)]
    pub(super) fn check_checksum(&self, base: usize) -> Result<(), FormatError> {
        let computed = checksum::xxh3(&self.bytes[at::CHECKSUM.end()..]);
        let found = self.checksum();
        if computed != found {
            let kind = FormatErrorKind::Checksum { expected: computed, found };
            return Err(FormatError::new((base + at::CHECKSUM.at) as u64, at::CHECKSUM.name, kind));
        }
        Ok(())
    }

    /// Checks the structure of the user headers (specification "User headers block").
    #[inline(always)]
    pub(super) fn check_user_headers(&self, base: usize) -> Result<(), FormatError> {
        if self.payload_end == self.bytes.len() {
            return Ok(());
        }
        match tlv::check_structure(self.user_headers_block()) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.inside((base + self.payload_end) as u64)),
        }
    }

    /// Compares `offset_delta` with what its place demands.
    #[inline(always)]
    pub(super) fn check_offset_delta(&self, base: usize, demanded: u64) -> Result<(), FormatError> {
        let found = u64::from(self.offset_delta());
        if found != demanded {
            let kind = FormatErrorKind::Mismatch { expected: demanded, found };
            let place = (base + at::OFFSET_DELTA.at) as u64;
            return Err(FormatError::new(place, at::OFFSET_DELTA.name, kind));
        }
        Ok(())
    }

    /// The checksum's bytes as they stand in the frame: what the batch checksum covers.
    #[inline(always)]
    pub(super) fn checksum_bytes(&self) -> &'a [u8; 8] {
        match self.bytes.first_chunk() {
            Some(sum) => sum,
            None => unreachable!("split_first gives no frame without its header"),
        }
    }

    /// The frame at the front of `bytes`, if one stands there whole: its lengths fit and its
    /// checksum holds. For searches behind damage, where no batch vouches for the place.
    pub fn whole(bytes: &'a [u8]) -> Option<Self> {
        let (frame, _) = Frame::split_first(bytes, 0).ok()?;
        frame.check_checksum(0).ok()?;
        Some(frame)
    }

    /// Which place in its batch, and how many bytes, the frame header at the front of `bytes` states;
    /// `None` where there is no header. Nothing but its reserved bytes was checked.
    pub fn stated(bytes: &[u8]) -> Option<(u32, u64)> {
        let header = bytes.first_chunk::<FRAME_HEADER_LEN>()?;
        let lengths = u64::from(at::PAYLOAD_LENGTH.u32(header))
            + u64::from(at::USER_HEADERS_LENGTH.u32(header));
        let fits = at::RESERVED.u64(header) == 0;
        fits.then(|| (at::OFFSET_DELTA.u32(header), FRAME_HEADER_LEN as u64 + lengths))
    }

    /// XXH3-64 of the frame from its ninth byte on.
    #[inline]
    pub fn checksum(&self) -> u64 {
        at::CHECKSUM.u64(self.header())
    }

    /// The message's id as the producer chose it, 0 included.
    pub fn id(&self) -> u128 {
        at::ID.u128(self.header())
    }

    /// The message's offset is the batch's `base_offset` plus this.
    #[inline]
    pub fn offset_delta(&self) -> u32 {
        at::OFFSET_DELTA.u32(self.header())
    }

    /// The producer's time is the batch's `origin_timestamp` plus this, in microseconds.
    pub fn timestamp_delta(&self) -> u32 {
        at::TIMESTAMP_DELTA.u32(self.header())
    }

    /// The payload.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[FRAME_HEADER_LEN..self.payload_end]
    }

    /// The user headers, typed where they are read; empty when the message has none.
    pub fn user_headers(&self) -> UserHeaders<'a> {
        UserHeaders::checked(self.user_headers_block())
    }

    #[inline(always)]
    fn user_headers_block(&self) -> &'a [u8] {
        &self.bytes[self.payload_end..]
    }

    /// The whole frame as it stands in the batch.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl std::fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frame")
            .field("id", &self.id())
            .field("offset_delta", &self.offset_delta())
            .field("timestamp_delta", &self.timestamp_delta())
            .field("payload_bytes", &self.payload().len())
            .field("user_headers_bytes", &self.user_headers_block().len())
            .finish()
    }
}

#[cold]
fn no_header(have: usize, base: usize) -> FormatError {
    let kind = FormatErrorKind::Truncated { needed: FRAME_HEADER_LEN as u64, have: have as u64 };
    FormatError::new(base as u64, "frame_header", kind)
}

/// Which of the two lengths is the first that does not fit.
#[cold]
fn too_long(header: &[u8; FRAME_HEADER_LEN], have: usize, base: usize) -> FormatError {
    let left = (have - FRAME_HEADER_LEN) as u64;
    let payload = u64::from(at::PAYLOAD_LENGTH.u32(header));
    let (field, found, max) = if payload > left {
        (at::PAYLOAD_LENGTH, payload, left)
    } else {
        let found = u64::from(at::USER_HEADERS_LENGTH.u32(header));
        (at::USER_HEADERS_LENGTH, found, left - payload)
    };
    let kind = FormatErrorKind::OutOfRange { found, min: 0, max };
    FormatError::new((base + field.at) as u64, field.name, kind)
}

#[cold]
fn not_zero(header: &[u8; FRAME_HEADER_LEN], base: usize) -> FormatError {
    let reserved = &header[at::RESERVED.at..at::RESERVED.end()];
    let first = reserved.iter().position(|&byte| byte != 0).unwrap_or(0);
    let kind = FormatErrorKind::NotZero { found: reserved[first] };
    FormatError::new((base + at::RESERVED.at + first) as u64, at::RESERVED.name, kind)
}
