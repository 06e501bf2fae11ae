//! What can go wrong with the catalog.

use std::fmt;
use std::path::PathBuf;

use corelog_io::IoError;

/// The catalog cannot be read or changed. Where a change was asked for, nothing of it was made,
/// unless the error is one of the disk: then it was made as a whole or not at all, and the next
/// open knows which.
#[derive(Debug)]
#[non_exhaustive]
pub enum CatalogError {
    /// The disk failed.
    Io(IoError),
    /// The store below the catalog failed.
    Store(Box<dyn std::error::Error + Send + Sync>),
    /// Written by a newer release; nothing was changed.
    Newer {
        /// What is newer: the catalog or one of its records.
        what: &'static str,
        /// Its version.
        found: u32,
        /// The newest version that this build reads.
        known: u32,
    },
    /// Not what a catalog holds.
    Damaged {
        /// The file, where it is known.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl CatalogError {
    /// Damage that was found; the file's name comes in where it is known.
    pub(super) fn damaged(why: String) -> CatalogError {
        CatalogError::Damaged { path: PathBuf::from("catalog.redb"), why }
    }
}

impl From<IoError> for CatalogError {
    fn from(error: IoError) -> Self {
        CatalogError::Io(error)
    }
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CatalogError::Io(error) => error.fmt(f),
            CatalogError::Store(error) => write!(f, "the catalog's store failed: {error}"),
            CatalogError::Newer { what, found, known } => write!(
                f,
                "the {what} has version {found}, this build reads up to {known}; open it with the \
                 release that wrote it or a newer one"
            ),
            CatalogError::Damaged { path, why } => write!(
                f,
                "{} is damaged: {why}; put back a copy of it (the logs were not touched); \
                 without one, move `streams` and it away, create the topics anew, and read the \
                 logs with corelog-dump",
                path.display()
            ),
        }
    }
}

impl std::error::Error for CatalogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CatalogError::Io(error) => Some(error),
            CatalogError::Store(error) => Some(error.as_ref()),
            CatalogError::Newer { .. } | CatalogError::Damaged { .. } => None,
        }
    }
}
