//! A cursor over untrusted bytes: every read is checked, and every error knows where it stood.

use crate::{FormatError, FormatErrorKind, le};

/// Reads fields one after another; positions in errors are those of the whole input.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Runs `read` over `bytes`, which it must use up to the last one.
    pub(crate) fn whole<T>(
        bytes: &'a [u8],
        what: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, FormatError>,
    ) -> Result<T, FormatError> {
        let (value, used) = Self::prefix(bytes, read)?;
        if used < bytes.len() {
            let extra = (bytes.len() - used) as u64;
            return Err(FormatError::new(used as u64, what, FormatErrorKind::Trailing { extra }));
        }
        Ok(value)
    }

    /// Runs `read` over the front of `bytes`: the value and how many bytes it took.
    pub(crate) fn prefix<T>(
        bytes: &'a [u8],
        read: impl FnOnce(&mut Self) -> Result<T, FormatError>,
    ) -> Result<(T, usize), FormatError> {
        let mut reader = Reader { bytes, at: 0 };
        let value = read(&mut reader)?;
        Ok((value, reader.at))
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, FormatError> {
        let value = le::u8(self.bytes, self.at, field)?;
        self.at += 1;
        Ok(value)
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, FormatError> {
        let value = le::u32(self.bytes, self.at, field)?;
        self.at += 4;
        Ok(value)
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, FormatError> {
        let value = le::u64(self.bytes, self.at, field)?;
        self.at += 8;
        Ok(value)
    }

    /// A length byte that must be exactly `expected`.
    pub(crate) fn exact_length(
        &mut self,
        expected: u8,
        field: &'static str,
    ) -> Result<(), FormatError> {
        let found = self.u8(field)?;
        if found != expected {
            let (expected, found) = (u64::from(expected), u64::from(found));
            return Err(self.error_back(1, field, FormatErrorKind::Mismatch { expected, found }));
        }
        Ok(())
    }

    /// `[length u8][value]` with a length of 1..=255.
    pub(crate) fn short_bytes(
        &mut self,
        length_field: &'static str,
        field: &'static str,
    ) -> Result<&'a [u8], FormatError> {
        let length = usize::from(self.u8(length_field)?);
        if length == 0 {
            let kind = FormatErrorKind::OutOfRange { found: 0, min: 1, max: 255 };
            return Err(self.error_back(1, length_field, kind));
        }
        let rest = &self.bytes[self.at..];
        let Some(value) = rest.get(..length) else {
            let (needed, have) = (length as u64, rest.len() as u64);
            return Err(self.error_back(0, field, FormatErrorKind::Truncated { needed, have }));
        };
        self.at += length;
        Ok(value)
    }

    /// `[length u8][value]` with a length of 1..=255 and a value that is UTF-8.
    pub(crate) fn short_text(
        &mut self,
        length_field: &'static str,
        field: &'static str,
    ) -> Result<&'a str, FormatError> {
        let value = self.short_bytes(length_field, field)?;
        std::str::from_utf8(value)
            .map_err(|_| self.error_back(value.len(), field, FormatErrorKind::NotUtf8))
    }

    /// An error about a field that began `back` bytes ago.
    pub(crate) fn error_back(
        &self,
        back: usize,
        field: &'static str,
        kind: FormatErrorKind,
    ) -> FormatError {
        FormatError::new((self.at - back) as u64, field, kind)
    }
}
