//! The runtime: glommio and io_uring, behind the traits of `corelog-io`. No other folder names them.
//!
//! | file | holds |
//! | --- | --- |
//! | `threads`, `executor` | shard threads: start all or none, run, drain, leave |
//! | `platform`, `disk`, `file`, `clock`, `spawn` | the traits, implemented |
//! | `transfer` | whole reads and writes out of calls that may be cut short |
//! | `buffer`, `budget` | buffers of the registered pool, counted |
//! | `huge_alloc`, `huge_pool` | the pool on 2 MiB pages |
//! | `lease` | buffers lent to other threads |
//! | `file_threads`, `fileops`, `fd` | what may block, on threads of its own; raw descriptors |
//! | `counts` | what the executor has done so far |
//! | `timers` | sleeps; and a pulse that keeps glommio from sleeping over tasks that are ready |
//! | `watch` | a thread that wakes executors whose pulse has stopped all the same |
//! | `uring`, `direct`, `affinity`, `placement` | what the machine allows, found out at start |

mod affinity;
mod budget;
mod buffer;
mod clock;
mod counts;
mod direct;
mod disk;
mod error;
mod executor;
mod fd;
mod file;
mod file_threads;
mod fileops;
mod huge_alloc;
mod huge_pool;
mod inflight;
mod lease;
mod placement;
mod platform;
mod readable;
mod spawn;
mod start_error;
mod threads;
mod timers;
mod transfer;
mod uring;
mod watch;

pub use direct::{DirectIo, DirectIoError};
pub use huge_alloc::HugePageAlloc;
pub use huge_pool::{PoolPages, SmallBecause};
pub use start_error::StartError;
pub use uring::{Facts as UringFacts, UringError};

#[cfg(test)]
mod tests;
pub(crate) use buffer::RealBytes;
pub use disk::MemoryUse;
pub(crate) use disk::{MemoryLimits, RealDisk};
pub(crate) use file_threads::THREADS_MAX as FILE_THREADS_MAX;
pub(crate) use platform::RealPlatform;
pub(crate) use readable::readable;
pub(crate) use threads::{Runtime, RuntimeOptions, ShardEnd, ShardMain, usable_cpus};
