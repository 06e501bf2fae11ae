//! A runtime on io_uring and nothing else: one executor a thread, and the I/O of its tasks.
//!
//! It knows nothing of shards, budgets or panics' texts: that is the layer above, which is the same
//! over glommio.
//!
//! | file | holds |
//! | --- | --- |
//! | `executor`, `turns` | the loop |
//! | `tasks`, `remote` | tasks on this thread; and those that other threads have woken |
//! | `anticipation` | when the loop's sleep ends, where an operation is under way |
//! | `queues`, `ops` | the ring; what each operation keeps until the kernel has answered |
//! | `file`, `buffer` | what tasks work with |
//! | `readable` | waits for what is none of these: an embedder's descriptors |
//! | `memory`, `buddy` | the pool that buffers are from |
//! | `timers` | sleeps |
//! | `local` | what all of these share on a thread |

mod anticipation;
mod buddy;
mod buffer;
mod executor;
mod file;
mod local;
mod memory;
mod ops;
mod queues;
mod readable;
mod remote;
mod tasks;
mod timers;
mod turns;

#[cfg(test)]
mod tests;

pub(super) use buffer::Buffer;
pub(super) use executor::{Executor, Options};
pub(super) use file::File;
pub(super) use readable::readable;
pub(super) use tasks::spawn;
pub(super) use timers::sleep;
pub(super) use turns::{turn_to_io, turns, yield_now};

/// Has the kernel refuse the ring of this thread.
#[cfg(test)]
pub(super) fn refuse() {
    local::expect().queues.borrow().as_ref().expect("the executor lives").refuse();
}
