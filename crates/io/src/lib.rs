//! The seam below Corelog's logic and above the operating system.
//!
//! Storage and shard code is written once, against four small traits, and runs unchanged on a real
//! disk (the engine's runtime) and on the simulated one ([`sim`]):
//!
//! | trait | stands for |
//! | --- | --- |
//! | [`Disk`] | a directory tree with O_DIRECT files, and the buffers that fit them |
//! | [`File`] | one open file: positional, aligned reads and writes, sync, allocate, cut |
//! | [`Clock`] | wall time in microseconds, sleeping |
//! | [`Spawn`] | tasks on this thread |
//!
//! Both pass one suite of examples of what the traits promise ([`contract`]).
//!
//! Futures of these traits are local to their thread. Unless a method says otherwise, dropping a
//! future does not undo the operation: a write that was started may still land.

mod aligned;
pub mod contract;
mod disk;
mod error;
mod platform;
pub mod sim;
pub mod task;

pub use aligned::{AlignedBuf, AlignedBytes, BufPool};
pub use disk::{BLOCK, Buf, Disk, File, Open, SharedBytes, align_down, align_up};
pub use error::{IoError, IoOp};
pub use platform::{Clock, Platform, Spawn};
