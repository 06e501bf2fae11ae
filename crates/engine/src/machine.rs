//! What the engine takes from the machine: what drives its shards, how files are opened, and the pages
//! under its buffers.

pub use crate::runtime::{DirectIo, HugePageAlloc, Runtime, UnknownRuntime};
