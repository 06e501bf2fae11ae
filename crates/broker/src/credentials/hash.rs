//! A password as it is stored: Argon2id with a salt of its own, as a PHC string, which says by what
//! parameters it was made.

use std::io;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};

/// Bytes of a salt.
const SALT_LEN: usize = 16;

/// The hash of a password.
pub(super) struct Hash(PasswordHash);

impl Hash {
    /// Of `password`, with a new salt. Takes tens of milliseconds and 19 MiB, as it should.
    ///
    /// # Errors
    /// The kernel has no random numbers.
    pub(super) fn of(password: &[u8]) -> io::Result<Hash> {
        let salt = crate::root::random::<SALT_LEN>()?;
        let hash = Argon2::default().hash_password_with_salt(password, &salt);
        hash.map(Hash).map_err(io::Error::other)
    }

    /// Whether it is that of `password`. Takes as long for a wrong one as for a right one: the
    /// hashes are compared without a look at where they differ.
    pub(super) fn is_of(&self, password: &[u8]) -> bool {
        Argon2::default().verify_password(password, &self.0).is_ok()
    }

    /// What [`Hash::text`] gave, read back.
    pub(super) fn read(text: &str) -> Option<Hash> {
        PasswordHash::new(text.trim_end()).ok().filter(|hash| hash.hash.is_some()).map(Hash)
    }

    /// `$argon2id$v=19$m=..,t=..,p=..$salt$hash`
    pub(super) fn text(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_of_one_password_and_of_one_salt() {
        let (one, other) = (Hash::of(b"secret").unwrap(), Hash::of(b"secret").unwrap());
        assert_ne!(one.text(), other.text());
        assert!(one.text().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", one.text());
        let read = Hash::read(&format!("{}\n", one.text())).unwrap();
        assert!(read.is_of(b"secret"));
        for wrong in [&b""[..], b"secre", b"secret ", b"Secret"] {
            assert!(!read.is_of(wrong), "{wrong:?}");
        }
        for wrong in ["", "secret", "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ"] {
            assert!(Hash::read(wrong).is_none(), "{wrong}");
        }
    }
}
