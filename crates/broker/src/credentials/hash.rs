//! A password as it is stored: Argon2id with a salt of its own, as a PHC string, which says by what
//! parameters it was made.

use std::io;

use argon2::password_hash::phc::{Output, ParamsString, PasswordHash, Salt};
use argon2::password_hash::{self, Error};
use argon2::{Algorithm, Argon2, Block, Params, Version};

/// Bytes of a salt.
const SALT_LEN: usize = 16;

/// The hash of a password, and the memory that one is computed in. It is kept: an allocator that
/// gets such blocks back hands them to others piece by piece, and gives the kernel nothing any more.
pub(super) struct Hash {
    stored: PasswordHash,
    memory: Vec<Block>,
}

impl Hash {
    /// Of `password`, with a new salt. Takes tens of milliseconds and 19 MiB, as it should.
    ///
    /// # Errors
    /// The kernel has no random numbers.
    pub(super) fn of(password: &[u8]) -> io::Result<Hash> {
        let salt = crate::root::random::<SALT_LEN>()?;
        let mut memory = Vec::new();
        let stored = made(password, &salt, &mut memory).map_err(io::Error::other)?;
        Ok(Hash { stored, memory })
    }

    /// Whether it is that of `password`. Takes as long for a wrong one as for a right one: the
    /// hashes are compared without a look at where they differ.
    pub(super) fn is_of(&mut self, password: &[u8]) -> bool {
        let Hash { stored, memory } = self;
        let computed = again(stored, password, memory);
        computed.is_ok_and(|computed| stored.hash == Some(computed))
    }

    /// What [`Hash::text`] gave, read back.
    pub(super) fn read(text: &str) -> Option<Hash> {
        let stored = PasswordHash::new(text.trim_end()).ok().filter(|hash| hash.hash.is_some())?;
        Some(Hash { stored, memory: Vec::new() })
    }

    /// `$argon2id$v=19$m=..,t=..,p=..$salt$hash`
    pub(super) fn text(&self) -> String {
        self.stored.to_string()
    }
}

/// With the parameters of the day.
fn made(
    password: &[u8],
    salt: &[u8],
    memory: &mut Vec<Block>,
) -> password_hash::Result<PasswordHash> {
    let (algorithm, version, params) =
        (Algorithm::default(), Version::default(), Params::default());
    let shown = ParamsString::try_from(&params)?;
    let hash = output(algorithm, version, params, (password, salt), memory)?;
    Ok(PasswordHash {
        algorithm: algorithm.ident(),
        version: Some(version.into()),
        params: shown,
        salt: Some(Salt::new(salt)?),
        hash: Some(hash),
    })
}

/// As `stored` was made, of another password.
fn again(
    stored: &PasswordHash,
    password: &[u8],
    memory: &mut Vec<Block>,
) -> password_hash::Result<Output> {
    let algorithm = Algorithm::try_from(stored.algorithm.as_str())?;
    let version = stored.version.map_or(Ok(Version::default()), Version::try_from)?;
    let salt: &[u8] = stored.salt.as_ref().ok_or(Error::SaltInvalid)?;
    output(algorithm, version, Params::try_from(stored)?, (password, salt), memory)
}

fn output(
    algorithm: Algorithm,
    version: Version,
    params: Params,
    (password, salt): (&[u8], &[u8]),
    memory: &mut Vec<Block>,
) -> password_hash::Result<Output> {
    memory.resize(params.block_count(), Block::new());
    let len = params.output_len().unwrap_or(Params::DEFAULT_OUTPUT_LEN);
    let argon2 = Argon2::new(algorithm, version, params);
    let mut buffer = [0; Output::MAX_LENGTH];
    let out = buffer.get_mut(..len).ok_or(Error::OutputSize)?;
    argon2.hash_password_into_with_memory(password, salt, out, memory)?;
    Ok(Output::new(out)?)
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::PasswordVerifier;

    use super::*;

    #[test]
    fn a_hash_is_of_one_password_and_of_one_salt() {
        let (one, other) = (Hash::of(b"secret").unwrap(), Hash::of(b"secret").unwrap());
        assert_ne!(one.text(), other.text());
        assert!(one.text().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", one.text());
        // The memory of one computation is the next one's, whatever it has left there.
        let mut read = Hash::read(&format!("{}\n", one.text())).unwrap();
        assert!(read.is_of(b"secret"));
        for wrong in [&b""[..], b"secre", b"secret ", b"Secret"] {
            assert!(!read.is_of(wrong), "{wrong:?}");
        }
        assert!(read.is_of(b"secret"));
        for wrong in ["", "secret", "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ"] {
            assert!(Hash::read(wrong).is_none(), "{wrong}");
        }
    }

    /// What the crate makes of the string by itself, and by other parameters than those of the day.
    #[test]
    fn a_hash_is_the_one_that_its_text_says() {
        let text = Hash::of(b"secret").unwrap().text();
        assert!(Argon2::default().verify_password(b"secret", text.as_str()).is_ok());
        let params = Params::new(64, 1, 1, Some(24)).unwrap();
        let salt = [7; SALT_LEN];
        let hash = password_hash::PasswordHasher::hash_password_with_salt(
            &Argon2::new(Algorithm::Argon2i, Version::V0x13, params),
            b"secret",
            &salt,
        );
        let mut read = Hash::read(&hash.unwrap().to_string()).unwrap();
        assert!(read.is_of(b"secret") && !read.is_of(b"secreT"));
    }
}
