//! What is measured, and the messages it is measured with.

use bytes::Bytes;
use iggy::prelude::{IggyMessage, PolledMessages};

/// Payload of a message, bytes.
pub const PAYLOAD: usize = 1000;

/// Header of a frame of the wire, and of a batch in it, bytes.
pub const HEADER: usize = 256;
/// Header of a message, bytes.
const MESSAGE_HEADER: usize = 48;

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Each sends to a partition of its own, one batch after the other.
    Sends,
    /// Each polls a partition of its own from its beginning to its end.
    Polls,
    /// Each polls the last batches of its partition again and again.
    PollsTheEnd,
}

/// A number of clients that do one thing in batches of so many messages.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    pub clients: usize,
    pub batch: u32,
    pub does: Does,
}

pub const SHAPES: [Shape; 7] = [
    Shape { name: "2 producers x 1,000", clients: 2, batch: 1000, does: Does::Sends },
    Shape { name: "2 consumers x 1,000", clients: 2, batch: 1000, does: Does::Polls },
    Shape {
        name: "2 consumers x 1,000 in memory",
        clients: 2,
        batch: 1000,
        does: Does::PollsTheEnd,
    },
    Shape { name: "8 producers x 1", clients: 8, batch: 1, does: Does::Sends },
    Shape { name: "8 producers x 10", clients: 8, batch: 10, does: Does::Sends },
    Shape { name: "8 producers x 100", clients: 8, batch: 100, does: Does::Sends },
    Shape { name: "8 producers x 1,000", clients: 8, batch: 1000, does: Does::Sends },
];

impl Shape {
    /// Bytes of a request and of its reply, as they go over the wire.
    pub fn frames(&self) -> (usize, usize) {
        let batch = HEADER + self.batch as usize * (MESSAGE_HEADER + PAYLOAD);
        // Names, routing, confirmations: a few dozen.
        match self.does {
            Does::Sends => (HEADER + 40 + batch, HEADER + 24),
            Does::Polls | Does::PollsTheEnd => (HEADER + 50, HEADER + 16 + batch),
        }
    }

    /// Payload that one request moves, bytes.
    pub fn payload(&self) -> u64 {
        u64::from(self.batch) * PAYLOAD as u64
    }
}

/// The batch that client `number` sends again and again, of `len` messages.
pub fn messages(number: usize, len: u32) -> Vec<IggyMessage> {
    let message =
        |index| IggyMessage::builder().payload(payload(number, u64::from(index))).build().unwrap();
    (0..len).map(message).collect()
}

/// The payload of a message by its client and its place in the batch: nothing in it repeats soon.
fn payload(number: usize, index: u64) -> Bytes {
    let mut state = (number as u64 + 1) << 32 | (index + 1);
    let mut bytes = Vec::with_capacity(PAYLOAD);
    while bytes.len() < PAYLOAD {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(PAYLOAD);
    Bytes::from(bytes)
}

/// Checks that `polled` goes on at `offset`, with the messages that client `number` has sent in
/// batches of `batch`; of the payloads, the first and the last one.
pub fn check(polled: &PolledMessages, offset: u64, number: usize, batch: u32) {
    for (expected, message) in (offset..).zip(&polled.messages) {
        assert_eq!(message.header.offset, expected, "stream {number}");
    }
    for message in polled.messages.first().iter().chain(&polled.messages.last()) {
        let offset = message.header.offset;
        let sent = payload(number, offset % u64::from(batch));
        assert_eq!(message.payload, sent, "message {offset} of stream {number}");
    }
}
