//! What the engine takes from the machine: what drives its shards, how files are opened, the pages
//! under its buffers, and what it asks of io_uring.

pub use crate::runtime::{DirectIo, HugePageAlloc, Runtime, URING_OPERATIONS, UnknownRuntime};
