//! The headers of answers.

use super::{HEADER_LEN, Request, at, command};

/// Why a client is put out, as the wire has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// It has not logged in.
    NoSession,
    /// Another connection has logged in with its client id since.
    Fenced,
    /// Not this user's password, or no such user.
    Credentials,
    /// Not a token.
    Token,
    /// It was silent for too long while partitions were its own.
    Stale,
    /// It speaks another protocol; the window of those that are spoken here.
    Version { max: u32, min: u32 },
    /// A login that cannot be read.
    Malformed,
}

impl Eviction {
    const fn code(self) -> u8 {
        match self {
            Eviction::NoSession => 1,
            Eviction::Fenced => 7,
            Eviction::Credentials => 9,
            Eviction::Token => 10,
            Eviction::Stale => 13,
            Eviction::Version { .. } => 14,
            Eviction::Malformed => 15,
        }
    }
}

/// The header of a reply with a body of `body_len` bytes. `operation` is the byte of the operation
/// as it was carried out, `op` the number of the session.
pub(crate) fn reply(
    request: &Request,
    operation: u8,
    op: u64,
    status: u32,
    body_len: usize,
) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..at::ECHO_END].copy_from_slice(&request.header[..at::ECHO_END]);
    // Nobody has computed checksums of this frame.
    header[..32].fill(0);
    let len = u32::try_from(HEADER_LEN + body_len).expect("bodies are bounded far below 4 GiB");
    put(&mut header, at::SIZE, &len.to_le_bytes());
    header[at::COMMAND] = command::REPLY;
    put(&mut header, at::REPLY_CLIENT, &request.client.to_le_bytes());
    put(&mut header, at::REPLY_OP, &op.to_le_bytes());
    put(&mut header, at::REPLY_COMMIT, &op.to_le_bytes());
    header[at::REPLY_TIMESTAMP..at::REPLY_TIMESTAMP + 8]
        .copy_from_slice(&request.header[at::TIMESTAMP..at::TIMESTAMP + 8]);
    put(&mut header, at::REPLY_REQUEST, &request.request.to_le_bytes());
    header[at::REPLY_OPERATION] = operation;
    put(&mut header, at::REPLY_STATUS, &status.to_le_bytes());
    header
}

/// The frame that puts `client` out; it has no body.
pub(crate) fn eviction(client: u128, why: Eviction) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    put(&mut header, at::SIZE, &(HEADER_LEN as u32).to_le_bytes());
    header[at::COMMAND] = command::EVICTION;
    put(&mut header, at::EVICTION_CLIENT, &client.to_le_bytes());
    if let Eviction::Version { max, min } = why {
        put(&mut header, at::EVICTION_VERSION_MAX, &max.to_le_bytes());
        put(&mut header, at::EVICTION_VERSION_MIN, &min.to_le_bytes());
    }
    header[at::EVICTION_REASON] = why.code();
    header
}

fn put(header: &mut [u8; HEADER_LEN], at: usize, bytes: &[u8]) {
    header[at..at + bytes.len()].copy_from_slice(bytes);
}
