//! A client's header, taken apart and checked.

use std::fmt;

use super::{FRAME_MAX, HEADER_LEN, at, command};
use crate::operation::{Operation, Question};

/// What a client asks, but for the body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// As it came, for what a reply gives back.
    pub(super) header: [u8; HEADER_LEN],
    pub(crate) operation: Operation,
    /// Which question, where the operation is [`Operation::NonReplicated`].
    pub(crate) code: u32,
    /// Drawn by the client, not 0.
    pub(crate) client: u128,
    pub(crate) session: u64,
    /// The client's number of this request.
    pub(crate) request: u64,
    /// XXH3-64 of the body; 0 where the client did not compute it.
    pub(crate) checksum: u128,
}

/// A header that is none. The reference server drops the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// `size` is below a header's length or above the limit: what follows cannot be told apart.
    Size {
        /// What it says.
        size: u32,
        /// What it may say.
        max: usize,
    },
    /// Not a request.
    Command(u8),
    /// Not an operation.
    Operation(u8),
    /// No client id.
    NoClient,
    /// A login with a session or a number, or anything else without.
    Session,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Size { size, max } => {
                write!(f, "a frame of {size} bytes; {HEADER_LEN} to {max} are allowed")
            }
            FrameError::Command(command) => {
                write!(f, "command {command} where {} (request) was expected", command::REQUEST)
            }
            FrameError::Operation(operation) => write!(f, "unknown operation {operation}"),
            FrameError::NoClient => f.write_str("client id 0"),
            FrameError::Session => f.write_str("session or request number where none belongs"),
        }
    }
}

/// Length of the whole frame that begins with `header`, bytes: `max` at most.
///
/// # Errors
/// A length that no frame can have.
pub(crate) fn frame_len(header: &[u8; HEADER_LEN], max: usize) -> Result<usize, FrameError> {
    let size = u32_at(header, at::SIZE);
    let len = size as usize;
    if (HEADER_LEN..=max).contains(&len) { Ok(len) } else { Err(FrameError::Size { size, max }) }
}

impl Request {
    /// Takes `header` apart.
    ///
    /// # Errors
    /// What the reference server refuses: see [`FrameError`].
    pub(crate) fn decode(header: &[u8; HEADER_LEN]) -> Result<Request, FrameError> {
        frame_len(header, FRAME_MAX)?;
        if header[at::COMMAND] != command::REQUEST {
            return Err(FrameError::Command(header[at::COMMAND]));
        }
        let operation = Operation::of(header[at::OPERATION])
            .ok_or(FrameError::Operation(header[at::OPERATION]))?;
        let request = Request {
            header: *header,
            operation,
            code: u32_at(header, at::CODE),
            client: u128_at(header, at::CLIENT),
            session: u64_at(header, at::SESSION),
            request: u64_at(header, at::REQUEST),
            checksum: u128_at(header, at::REQUEST_CHECKSUM),
        };
        if request.client == 0 {
            return Err(FrameError::NoClient);
        }
        let is_fit = match operation {
            Operation::Register => (request.session, request.request) == (0, 0),
            Operation::NonReplicated => true,
            _ => request.session > 0 && request.request > 0,
        };
        if is_fit { Ok(request) } else { Err(FrameError::Session) }
    }

    /// True for what may be answered with messages.
    pub(crate) fn is_poll(&self) -> bool {
        self.operation == Operation::NonReplicated && self.code == Question::PollMessages as u32
    }
}

fn bytes_at<const N: usize>(header: &[u8; HEADER_LEN], at: usize) -> [u8; N] {
    header[at..at + N].try_into().expect("fields lie inside of the header")
}

fn u32_at(header: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(header, at))
}

fn u64_at(header: &[u8; HEADER_LEN], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(header, at))
}

fn u128_at(header: &[u8; HEADER_LEN], at: usize) -> u128 {
    u128::from_le_bytes(bytes_at(header, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[at::SIZE..at::SIZE + 4].copy_from_slice(&300_u32.to_le_bytes());
        header[at::COMMAND] = command::REQUEST;
        header[at::CLIENT] = 7;
        header[at::SESSION] = 3;
        header[at::REQUEST] = 2;
        header[at::OPERATION] = 128;
        header
    }

    #[test]
    fn each_field_comes_from_its_place() {
        let request = Request::decode(&header()).unwrap();
        assert_eq!((request.client, request.session, request.request), (7, 3, 2));
        assert_eq!(request.operation, Operation::CreateStream);
        assert_eq!(frame_len(&header(), 300), Ok(300));
        assert_eq!(frame_len(&header(), 299), Err(FrameError::Size { size: 300, max: 299 }));
    }

    #[test]
    fn what_is_no_request_is_refused_by_the_field_that_says_so() {
        type Set = fn(&mut [u8; HEADER_LEN]);
        let wrong: [(Set, FrameError); 9] = [
            (|h| h[at::SIZE..at::SIZE + 4].fill(0), FrameError::Size { size: 0, max: FRAME_MAX }),
            (|h| h[at::SIZE + 3] = 4, FrameError::Size { size: (4 << 24) + 300, max: FRAME_MAX }),
            (|h| h[at::COMMAND] = 8, FrameError::Command(8)),
            (|h| h[at::OPERATION] = 0, FrameError::Operation(0)),
            (|h| h[at::OPERATION] = 64, FrameError::Operation(64)),
            (|h| h[at::CLIENT] = 0, FrameError::NoClient),
            (|h| h[at::SESSION] = 0, FrameError::Session),
            (|h| h[at::REQUEST] = 0, FrameError::Session),
            (|h| h[at::OPERATION] = 1, FrameError::Session),
        ];
        for (number, (set, error)) in wrong.into_iter().enumerate() {
            let mut header = header();
            set(&mut header);
            assert_eq!(Request::decode(&header).unwrap_err(), error, "case {number}");
        }
    }

    #[test]
    fn questions_need_no_session() {
        let mut header = header();
        header[at::OPERATION] = 2;
        (header[at::SESSION], header[at::REQUEST]) = (0, 0);
        header[at::CODE] = 100;
        assert_eq!(Request::decode(&header).unwrap().code, 100);
    }
}
