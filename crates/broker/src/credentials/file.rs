//! Where the hash is stored, and which password holds.
//!
//! | given | stored | what holds |
//! | --- | --- | --- |
//! | yes | no, or another one | the given one, which is stored |
//! | yes | the same | it |
//! | no | yes | the stored one |
//! | no | no | one that is made up, stored, and shown once |

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::hash::Hash;
use crate::root::RootPassword;

/// In the data directory.
const NAME: &str = "root-password";
const NEW_NAME: &str = "root-password.new";

/// The hash of the root user's password cannot be read or stored.
#[derive(Debug)]
pub struct PasswordFileError {
    path: PathBuf,
    what: What,
}

#[derive(Debug)]
enum What {
    Io(&'static str, io::Error),
    Rotten,
}

/// Which password holds.
pub(crate) struct Settled {
    pub(super) hash: Hash,
    /// One that was made up, and that nobody knows yet.
    pub(crate) made: Option<RootPassword>,
    /// Another one was stored before.
    pub(crate) is_changed: bool,
}

/// Settles which password holds, where `given` is what the environment has. The data directory is
/// there, and is this process's own.
///
/// # Errors
/// What is stored cannot be read, or nothing can be stored.
pub(crate) fn settle(
    data: &Path,
    given: Option<&RootPassword>,
) -> Result<Settled, PasswordFileError> {
    let path = data.join(NAME);
    let failed = |did, error| PasswordFileError { path: path.clone(), what: What::Io(did, error) };
    let stored = match fs::read_to_string(&path) {
        Ok(text) => Some(Hash::read(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed("read", error)),
    };
    let rotten = || PasswordFileError { path: path.clone(), what: What::Rotten };
    let (password, is_made, is_changed) = match (given, stored) {
        (None, Some(stored)) => {
            let hash = stored.ok_or_else(rotten)?;
            return Ok(Settled { hash, made: None, is_changed: false });
        }
        (Some(given), Some(Some(mut hash))) => {
            if hash.is_of(given.bytes()) {
                return Ok(Settled { hash, made: None, is_changed: false });
            }
            (given.clone(), false, true)
        }
        (Some(given), stored) => (given.clone(), false, stored.is_some()),
        (None, None) => {
            let made = RootPassword::generated().map_err(|error| failed("make up", error))?;
            (made, true, false)
        }
    };
    let hash = Hash::of(password.bytes()).map_err(|error| failed("hash", error))?;
    store(data, &hash).map_err(|error| failed("store", error))?;
    Ok(Settled { hash, made: is_made.then_some(password), is_changed })
}

/// Old or new, whatever happens meanwhile; readable for this user alone.
fn store(data: &Path, hash: &Hash) -> io::Result<()> {
    let new = data.join(NEW_NAME);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    writeln!(file, "{}", hash.text())?;
    file.sync_all()?;
    fs::rename(&new, data.join(NAME))?;
    File::open(data)?.sync_all()
}

impl fmt::Display for PasswordFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.what {
            What::Io(did, error) => write!(f, "cannot {did} the password in {path}: {error}"),
            What::Rotten => write!(
                f,
                "{path} holds no hash of a password: give one by CORELOG_ROOT_PASSWORD, which \
                 replaces it"
            ),
        }
    }
}

impl std::error::Error for PasswordFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.what {
            What::Io(_, error) => Some(error),
            What::Rotten => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn password(text: &str) -> RootPassword {
        RootPassword::new(text).unwrap()
    }

    #[test]
    fn one_is_made_up_once_and_then_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = settle(dir.path(), None).unwrap();
        let made = first.made.expect("nobody gave one");
        assert!(first.hash.is_of(made.bytes()));
        let mut again = settle(dir.path(), None).unwrap();
        assert!(again.made.is_none() && !again.is_changed && again.hash.is_of(made.bytes()));
        let text = fs::read_to_string(dir.path().join(NAME)).unwrap();
        assert!(text.starts_with("$argon2id$") && !text.contains(made.reveal()));
        let mode = fs::metadata(dir.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_given_one_holds_and_replaces_what_was_stored() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = settle(dir.path(), Some(&password("first"))).unwrap();
        assert!(!first.is_changed && first.made.is_none() && first.hash.is_of(b"first"));
        let text = || fs::read_to_string(dir.path().join(NAME)).unwrap();
        let before = text();
        assert!(!settle(dir.path(), Some(&password("first"))).unwrap().is_changed);
        assert_eq!(text(), before, "nothing to store");
        let mut other = settle(dir.path(), Some(&password("other"))).unwrap();
        assert!(other.is_changed && other.hash.is_of(b"other") && !other.hash.is_of(b"first"));
        // It stays when it is not given any more.
        assert!(settle(dir.path(), None).unwrap().hash.is_of(b"other"));
    }

    #[test]
    fn what_is_no_hash_lets_nobody_in_and_can_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(NAME), "secret").unwrap();
        let error = settle(dir.path(), None).err().expect("it is no hash").to_string();
        assert!(error.contains("root-password") && !error.contains("secret"), "{error}");
        // A leftover of a crash is in nobody's way.
        fs::write(dir.path().join(NEW_NAME), "half").unwrap();
        assert!(settle(dir.path(), Some(&password("first"))).unwrap().hash.is_of(b"first"));
    }
}
