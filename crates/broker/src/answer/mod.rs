//! What a request is answered with, and the bodies of it. Pure: values in, bytes out.

mod catalog;
mod system;

use bytes::Bytes;

use crate::frame::Eviction;
use crate::status::{Failure, Status};

pub(crate) use catalog::{
    Holding, assignment, confirmation, group, group_members, partition, stream, topic_header,
};
pub(crate) use system::{
    Connected, Stats, client, client_groups, cluster, login, option, root_user, root_user_details,
    stats,
};

/// What goes back to a client.
pub(crate) enum Answer {
    /// A reply with this status.
    Reply { status: u32, body: Body },
    /// A frame that puts the client out.
    Evict(Eviction),
}

/// A reply's body: bytes of ours, and behind them views of the engine's.
#[derive(Default)]
pub(crate) struct Body {
    pub(crate) head: Vec<u8>,
    pub(crate) views: Vec<Bytes>,
    /// The code in the result section, where that says that something failed.
    pub(crate) failure: Option<u32>,
}

impl Body {
    /// Length, bytes.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.views.iter().map(Bytes::len).sum::<usize>()
    }
}

impl Answer {
    /// Success, with `head` behind nothing.
    pub(crate) fn plain(head: Vec<u8>) -> Answer {
        Answer::Reply { status: 0, body: Body { head, ..Body::default() } }
    }

    /// Success, with nothing to say.
    pub(crate) fn empty() -> Answer {
        Answer::plain(Vec::new())
    }

    /// Success of a change, with `payload` behind the result section.
    pub(crate) fn done(payload: &[u8]) -> Answer {
        let mut head = Vec::with_capacity(4 + payload.len());
        put_u32(&mut head, 0);
        head.extend_from_slice(payload);
        Answer::plain(head)
    }

    /// The status in the header.
    pub(crate) fn refused(status: Status) -> Answer {
        Answer::Reply { status: status.0, body: Body::default() }
    }

    /// One failure in the result section.
    pub(crate) fn failed(status: Status) -> Answer {
        let mut head = Vec::with_capacity(12);
        for number in [1, 0, status.0] {
            put_u32(&mut head, number);
        }
        let body = Body { head, failure: Some(status.0), ..Body::default() };
        Answer::Reply { status: 0, body }
    }

    /// Bytes of the engine's that it holds.
    pub(crate) fn views_len(&self) -> usize {
        match self {
            Answer::Reply { body, .. } => body.views.iter().map(Bytes::len).sum(),
            Answer::Evict(_) => 0,
        }
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Answer {
        match failure {
            Failure::Refused(status) => Answer::refused(status),
            Failure::Result(status) => Answer::failed(status),
        }
    }
}

pub(crate) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// `[length: 1][text]`: names are 1 to 255 bytes.
fn put_name(out: &mut Vec<u8>, name: &str) {
    out.push(u8::try_from(name.len()).expect("names are at most 255 bytes"));
    out.extend_from_slice(name.as_bytes());
}

/// `[length: 4][bytes]`.
fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, u32::try_from(bytes.len()).expect("what is told is far below 4 GiB"));
    out.extend_from_slice(bytes);
}
