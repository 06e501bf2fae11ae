//! The walk over a batch's frames that admission, verification and slicing share.

use crate::{FormatError, FormatErrorKind};

use super::{BATCH_HEADER_LEN, Frame};

/// A frame and where it stands.
pub(super) struct Visit<'a> {
    /// Place in the batch, from 0.
    pub(super) index: u32,
    /// First byte, counted from the batch's first.
    pub(super) at: usize,
    pub(super) frame: Frame<'a>,
}

/// Calls `each` with every frame of the batch `bytes` in order, then checks that the frames end
/// with it. A frame is split off only after its lengths were checked against what is left, so
/// `count` decides nothing but when to stop.
#[inline(always)]
pub(super) fn walk<'a>(
    bytes: &'a [u8],
    count: u32,
    mut each: impl FnMut(&Visit<'a>) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let mut rest = bytes.get(BATCH_HEADER_LEN..).unwrap_or_default();
    for index in 0..count {
        let at = bytes.len() - rest.len();
        let (frame, after) = Frame::split_first(rest, at)?;
        each(&Visit { index, at, frame })?;
        rest = after;
    }
    if !rest.is_empty() {
        return Err(left_over(bytes.len(), rest.len()));
    }
    Ok(())
}

#[cold]
fn left_over(len: usize, extra: usize) -> FormatError {
    let kind = FormatErrorKind::Trailing { extra: extra as u64 };
    FormatError::new((len - extra) as u64, "message_count", kind)
}
