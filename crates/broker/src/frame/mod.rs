//! Frames: a header of 256 bytes, and a body behind it.
//!
//! | file | what it is |
//! | --- | --- |
//! | `request` | a client's header, taken apart and checked |
//! | `reply` | the headers of answers: replies and evictions |

mod reply;
mod request;

pub(crate) use reply::{Eviction, eviction, reply};
pub(crate) use request::{FrameError, Request, frame_len};

/// Length of every header, bytes.
pub(crate) const HEADER_LEN: usize = 256;

/// Longest frame with its header, bytes.
pub(crate) const FRAME_MAX: usize = 64 << 20;

/// `command` of the three kinds of frames.
mod command {
    pub(super) const REQUEST: u8 = 5;
    pub(super) const REPLY: u8 = 8;
    pub(super) const EVICTION: u8 = 13;
}

/// Places in a header, bytes from its start. Those up to `CLIENT` are the same in all three.
mod at {
    pub(super) const SIZE: usize = 48;
    pub(super) const COMMAND: usize = 60;
    /// End of what a reply gives back as the request had it.
    pub(super) const ECHO_END: usize = 62;

    pub(super) const CLIENT: usize = 128;
    pub(super) const REQUEST_CHECKSUM: usize = 144;
    pub(super) const TIMESTAMP: usize = 160;
    pub(super) const REQUEST: usize = 168;
    pub(super) const OPERATION: usize = 176;
    pub(super) const SESSION: usize = 184;
    /// Only in requests that are not replicated.
    pub(super) const CODE: usize = 196;

    pub(super) const REPLY_CLIENT: usize = 160;
    pub(super) const REPLY_OP: usize = 176;
    pub(super) const REPLY_COMMIT: usize = 184;
    pub(super) const REPLY_TIMESTAMP: usize = 192;
    pub(super) const REPLY_REQUEST: usize = 200;
    pub(super) const REPLY_OPERATION: usize = 208;
    pub(super) const REPLY_STATUS: usize = 216;

    pub(super) const EVICTION_CLIENT: usize = 128;
    pub(super) const EVICTION_VERSION_MAX: usize = 144;
    pub(super) const EVICTION_VERSION_MIN: usize = 148;
    pub(super) const EVICTION_REASON: usize = 255;
}
