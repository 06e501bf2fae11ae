//! The runtimes: glommio's, and one of our own on io_uring, behind the traits of `corelog-io`. No
//! other folder names either.
//!
//! What a shard's files, buffers, leases and tasks promise is written once, here. Where the two
//! differ there is one branch, in `tasks`, `handle`, `buffer` and `life`, and then what is theirs.
//!
//! | file | holds |
//! | --- | --- |
//! | `choice` | the two, by name |
//! | `threads`, `life` | shard threads: start all or none, run, drain, leave |
//! | `platform`, `disk`, `file`, `clock`, `spawn` | the traits, implemented |
//! | `tasks`, `handle` | tasks, sleeps and single calls on files, of either runtime |
//! | `transfer` | whole reads and writes out of calls that may be cut short |
//! | `buffer`, `boxes`, `budget` | buffers of the registered pool, reused, counted |
//! | `huge_alloc`, `pages` | the pool on 2 MiB pages |
//! | `lease` | buffers lent to other threads |
//! | `file_threads`, `fileops`, `fd` | what may block, on threads of its own |
//! | `near` | what does not block where the kernel has it in memory, on the shard itself |
//! | `uring`, `direct`, `affinity`, `placement` | what the machine allows, found out at start |
//! | `glommio` | what is glommio's: executor, tasks, timers, its pool |
//! | `ring`, `ring_executor` | the executor of our own, and its I/O |

mod affinity;
mod boxes;
mod budget;
mod buffer;
mod choice;
mod clock;
mod direct;
mod disk;
mod fd;
mod file;
mod file_threads;
mod fileops;
mod glommio;
mod handle;
mod huge_alloc;
mod inflight;
mod lease;
mod life;
mod near;
mod pages;
mod placement;
mod platform;
mod ring;
mod ring_executor;
mod spawn;
mod start_error;
mod tasks;
mod threads;
mod transfer;
mod uring;

pub use choice::{Runtime, UnknownRuntime};
pub use direct::{DirectIo, DirectIoError};
pub use huge_alloc::HugePageAlloc;
pub use pages::{PoolPages, SmallBecause};
pub use start_error::StartError;
pub use uring::{Facts as UringFacts, URING_OPERATIONS, UringError};

#[cfg(test)]
mod tests;
pub(crate) use buffer::RealBytes;
pub use disk::MemoryUse;
pub(crate) use disk::{MemoryLimits, RealDisk};
pub(crate) use file_threads::THREADS_MAX as FILE_THREADS_MAX;
pub(crate) use platform::RealPlatform;
pub(crate) use threads::{RuntimeOptions, ShardEnd, ShardMain, ShardThreads, usable_cpus};
