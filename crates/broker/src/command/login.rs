//! A login: by name and password, or with a token.

use super::{Reader, Undecodable};

/// What a client says of itself when it begins.
pub(crate) struct Login<'a> {
    /// major, minor and patch: `major << 20 | minor << 10 | patch`.
    pub(crate) version: u32,
    pub(crate) sdk: &'a str,
    pub(crate) sdk_version: &'a str,
    /// `None` where it has the shape of neither.
    pub(crate) secret: Option<Secret<'a>>,
}

/// By what it proves who it is.
pub(crate) enum Secret<'a> {
    Password { user: &'a str, password: &'a [u8] },
    Token,
}

impl<'a> Login<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        let version = reader.u32()?;
        let (sdk, sdk_version) = (reader.name()?, reader.name()?);
        let rest = &body[reader.position()..];
        let secret = password(rest).or_else(|_| token(rest)).ok();
        Ok(Login { version, sdk, sdk_version, secret })
    }
}

/// Both shapes end with a context, which is not looked at.
fn password(bytes: &[u8]) -> Result<Secret<'_>, Undecodable> {
    let mut reader = Reader::new(bytes);
    let user = reader.name()?;
    let len = reader.u8()?;
    let password = reader.bytes(usize::from(len))?;
    context(&mut reader)?;
    Ok(Secret::Password { user, password })
}

fn token(bytes: &[u8]) -> Result<Secret<'_>, Undecodable> {
    let mut reader = Reader::new(bytes);
    let len = reader.u8()?;
    reader.bytes(usize::from(len))?;
    context(&mut reader)?;
    Ok(Secret::Token)
}

fn context(reader: &mut Reader<'_>) -> Result<(), Undecodable> {
    let len = reader.u32()?;
    reader.bytes(usize::try_from(len).map_err(|_| Undecodable)?)?;
    Ok(())
}
