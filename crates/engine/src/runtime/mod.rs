//! The runtime: glommio and io_uring, behind the traits of `corelog-io`. No other folder names them.
//!
//! | file | holds |
//! | --- | --- |
//! | `threads` | shard threads: start all or none, join them |
//! | `platform`, `disk`, `file`, `clock` | the traits, implemented |
//! | `transfer` | whole reads and writes out of calls that may be cut short |
//! | `buffer`, `budget` | buffers of the registered pool, counted |
//! | `huge_alloc` | an allocator that puts pools on 2 MiB pages |
//! | `lease` | buffers lent to other threads |
//! | `file_threads`, `fileops` | what may block, on threads of its own |
//! | `uring`, `direct`, `affinity`, `placement` | what the machine allows, found out at start |
//! | `glommio` | what is glommio's: executor, tasks, timers, its pool |

mod affinity;
mod budget;
mod buffer;
mod clock;
mod direct;
mod disk;
mod file;
mod file_threads;
mod fileops;
mod glommio;
mod huge_alloc;
mod inflight;
mod lease;
mod placement;
mod platform;
mod start_error;
mod threads;
mod transfer;
mod uring;

pub use direct::{DirectIo, DirectIoError};
pub use glommio::huge_pool::{PoolPages, SmallBecause};
pub use huge_alloc::HugePageAlloc;
pub use start_error::StartError;
pub use uring::{Facts as UringFacts, URING_OPERATIONS, UringError};

#[cfg(test)]
mod tests;
pub(crate) use buffer::RealBytes;
pub use disk::MemoryUse;
pub(crate) use disk::{MemoryLimits, RealDisk};
pub(crate) use file_threads::THREADS_MAX as FILE_THREADS_MAX;
pub(crate) use platform::RealPlatform;
pub(crate) use threads::{Runtime, RuntimeOptions, ShardEnd, ShardMain, usable_cpus};
