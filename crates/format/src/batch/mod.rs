//! The batch: the one layout in which messages travel and rest. Specification "Message batches".
//!
//! Read the files in the order of a batch's life: `builder` makes one, `admit` lets it in and
//! stamps it, `unverified` brings bytes back from a disk or a socket, `verified` reads them and
//! `slice` cuts a view for a poll. `header`, `frame` and `walk` are what they all stand on.

mod admit;
mod build_error;
mod builder;
mod frame;
mod header;
mod message;
mod slice;
mod unverified;
mod verified;
mod walk;

pub use admit::{Admitted, admit, admit_with};
pub use build_error::BuildError;
pub use builder::BatchBuilder;
pub use frame::{FRAME_HEADER_LEN, Frame};
pub use header::{BATCH_BYTES_MAX, BATCH_HEADER_LEN, BatchHeader};
pub use message::Message;
pub use slice::Slice;
pub use unverified::UnverifiedBatch;
pub use verified::{Batch, Frames};
