//! The one user, and its password.

use std::fmt;

/// Its id.
pub(crate) const ROOT_ID: u32 = 0;
/// Its name.
pub(crate) const ROOT_NAME: &str = "iggy";

/// The environment variable with its password.
pub const PASSWORD_VARIABLE: &str = "CORELOG_ROOT_PASSWORD";

/// The root user's password: 3 to 100 bytes.
#[derive(Clone)]
pub struct RootPassword(String);

/// Not a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PasswordLength {
    /// Its length, bytes.
    pub found: usize,
}

impl RootPassword {
    /// The password `password`.
    ///
    /// # Errors
    /// Where it is shorter than 3 or longer than 100 bytes, which no client could send.
    pub fn new(password: impl Into<String>) -> Result<RootPassword, PasswordLength> {
        let password = password.into();
        let found = password.len();
        if (3..=100).contains(&found) {
            Ok(RootPassword(password))
        } else {
            Err(PasswordLength { found })
        }
    }

    /// One that nobody knows yet: 32 letters and digits, of the kernel's random numbers.
    ///
    /// # Errors
    /// Where the kernel has none.
    pub fn generated() -> std::io::Result<RootPassword> {
        const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
        let letter = |byte: u8| char::from(LETTERS[usize::from(byte % 32)]);
        Ok(RootPassword(random::<32>()?.map(letter).iter().collect()))
    }

    /// To be shown once, where it was generated.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Of the kernel's random numbers.
///
/// # Errors
/// It has none.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut random = [0; N];
    let got = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    match got == N {
        true => Ok(random),
        false => Err(std::io::Error::other("the kernel gave too few random bytes")),
    }
}

impl fmt::Debug for RootPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RootPassword")
    }
}

impl fmt::Display for PasswordLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a password of {} bytes: choose one of 3 to 100", self.found)
    }
}

impl std::error::Error for PasswordLength {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_have_the_lengths_that_clients_can_send() {
        assert_eq!(RootPassword::new("ab").unwrap_err(), PasswordLength { found: 2 });
        assert!(RootPassword::new("a".repeat(100)).is_ok());
        assert!(RootPassword::new("a".repeat(101)).is_err());
    }

    #[test]
    fn generated_ones_differ_and_are_not_shown_by_accident() {
        let (one, other) = (RootPassword::generated().unwrap(), RootPassword::generated().unwrap());
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(one.reveal().len(), 32);
        assert!(!format!("{one:?}").contains(one.reveal()));
    }
}
