//! glommio's errors, reduced to the operating system's answer.

use std::io;

use glommio::GlommioError;

/// The operating system's error inside `error`, with its number. glommio's own conversion keeps
/// only the text, and a caller could no longer tell a full disk from a broken one.
pub(in crate::runtime) fn os_error<T>(error: GlommioError<T>) -> io::Error {
    match error {
        GlommioError::IoError(source) | GlommioError::EnhancedIoError { source, .. } => source,
        other => io::Error::other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_survives() {
        let error: GlommioError<()> = GlommioError::EnhancedIoError {
            source: io::Error::from_raw_os_error(libc::ENOSPC),
            op: "Writing",
            path: None,
            fd: Some(3),
        };
        assert_eq!(os_error(error).raw_os_error(), Some(libc::ENOSPC));
        let error: GlommioError<()> = io::Error::from_raw_os_error(libc::EIO).into();
        assert_eq!(os_error(error).raw_os_error(), Some(libc::EIO));
    }
}
