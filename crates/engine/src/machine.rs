//! What the engine takes from the machine: how files are opened, the pages under its buffers, and
//! what it asks of io_uring.

pub use crate::runtime::{DirectIo, HugePageAlloc, URING_OPERATIONS};
