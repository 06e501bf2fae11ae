//! What the engine takes from the machine: how files are opened, and the pages under its buffers.

pub use crate::runtime::{DirectIo, HugePageAlloc};
