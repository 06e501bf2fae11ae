//! A segment's batch headers, hopped over by their lengths: what `ls` counts. No checksum is
//! compared, and of the bytes between two headers none is read.

use corelog_format::{BATCH_HEADER_LEN, BatchHeader, FormatError, FormatErrorKind};

use crate::failure::Failure;
use crate::source::Source;

/// Where the headers end, and why.
#[derive(Debug)]
pub(crate) struct Hopped {
    /// File position behind the last batch.
    pub(crate) end: u64,
    /// What is there instead of a batch, unless it is the end of the file or zeros up to it.
    pub(crate) broken: Option<FormatError>,
}

/// Calls `on` with each header and its file position.
pub(crate) fn each_header(
    source: &mut Source,
    mut on: impl FnMut(u64, &BatchHeader),
) -> Result<Hopped, Failure> {
    let mut at = 0;
    while at < source.len() {
        let left = source.len() - at;
        match whole_batch(source.window(at, BATCH_HEADER_LEN as u64)?, left) {
            Ok(header) => {
                on(at, &header);
                at += header.batch_length;
            }
            Err(why) => {
                let zeros = source.zeros_to_end(at)?;
                if !zeros && source.was_in_motion()? {
                    continue;
                }
                source.intact()?;
                return Ok(Hopped { end: at, broken: (!zeros).then(|| why.inside(at)) });
            }
        }
    }
    Ok(Hopped { end: at, broken: None })
}

/// The header at the front of `window`, if `left` bytes of the file are enough for its batch.
fn whole_batch(window: &[u8], left: u64) -> Result<BatchHeader, FormatError> {
    let header = BatchHeader::parse(window)?;
    if header.batch_length > left {
        let kind = FormatErrorKind::Truncated { needed: header.batch_length, have: left };
        return Err(FormatError::new(0, "batch", kind));
    }
    Ok(header)
}
