//! One message as a producer hands it over.

use crate::{FormatError, FormatErrorKind, HeaderValue, UserHeaders, tlv, user_headers};

/// One message to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    pub(super) id: u128,
    pub(super) origin_timestamp: u64,
    pub(super) payload: &'a [u8],
    headers: Headers<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Headers<'a> {
    Block(&'a [u8]),
    Typed(&'a [(&'a str, HeaderValue<'a>)]),
}

impl<'a> Message<'a> {
    /// A message with id 0, origin time 0 and no user headers. The payload may be empty.
    pub fn new(payload: &'a [u8]) -> Self {
        Message { id: 0, origin_timestamp: 0, payload, headers: Headers::Block(&[]) }
    }

    /// Sets the id. It is sent as it is: 0 stays 0.
    #[must_use]
    pub fn id(mut self, id: u128) -> Self {
        self.id = id;
        self
    }

    /// Sets the producer's time in microseconds.
    #[must_use]
    pub fn origin_timestamp(mut self, us: u64) -> Self {
        self.origin_timestamp = us;
        self
    }

    /// Sets the user headers. They are encoded straight into the batch; a key may stand twice.
    #[must_use]
    pub fn headers(mut self, headers: &'a [(&'a str, HeaderValue<'a>)]) -> Self {
        self.headers = Headers::Typed(headers);
        self
    }

    /// Sets the user headers to a block that exists already, see [`crate::UserHeadersBuilder`].
    #[must_use]
    pub fn user_headers(self, headers: UserHeaders<'a>) -> Self {
        self.user_headers_block(headers.bytes())
    }

    /// Sets the user headers to encoded bytes. Pushing checks the structure that admission demands.
    #[must_use]
    pub fn user_headers_block(mut self, block: &'a [u8]) -> Self {
        self.headers = Headers::Block(block);
        self
    }

    /// Bytes of the user headers that are known before they are encoded.
    pub(super) fn block_len(&self) -> usize {
        match self.headers {
            Headers::Block(block) => block.len(),
            Headers::Typed(_) => 0,
        }
    }

    /// Appends the encoded user headers, at most `bytes_max` bytes of them. On an error `out` may
    /// have grown.
    pub(super) fn put_headers(
        &self,
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), FormatError> {
        match self.headers {
            Headers::Block(block) => {
                if block.len() > bytes_max {
                    let (found, max) = (block.len() as u64, bytes_max as u64);
                    let kind = FormatErrorKind::OutOfRange { found, min: 0, max };
                    return Err(FormatError::new(0, "block length", kind));
                }
                tlv::check_structure(block)?;
                out.extend_from_slice(block);
            }
            Headers::Typed(headers) => {
                let start = out.len();
                for (key, value) in headers {
                    user_headers::put_pair(out, start + bytes_max, key, value)
                        .map_err(|error| from_block(error, start))?;
                }
            }
        }
        Ok(())
    }
}

/// `put_pair` counts from the start of its output; the caller's block begins at `start` of it.
fn from_block(mut error: FormatError, start: usize) -> FormatError {
    error.at = error.at.saturating_sub(start as u64);
    if let FormatErrorKind::OutOfRange { found, max, .. } = &mut error.kind
        && error.field == "block length"
    {
        *found = found.saturating_sub(start as u64);
        *max = max.saturating_sub(start as u64);
    }
    error
}
