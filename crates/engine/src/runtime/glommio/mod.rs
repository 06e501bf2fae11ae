//! What is glommio's: its executor and what keeps it awake, its tasks, its pool, its descriptors.
//!
//! | file | holds |
//! | --- | --- |
//! | `executor` | a shard's executor: made, run, left |
//! | `tasks` | its tasks |
//! | `timers` | sleeps; and a pulse that keeps glommio from sleeping over tasks that are ready |
//! | `watch` | a thread that wakes executors whose pulse has stopped all the same |
//! | `counts` | what the executor has done so far |
//! | `fd` | raw descriptors |
//! | `huge_pool` | its buffer pool, on 2 MiB pages |
//! | `readable` | waits for descriptors that are none of its files |
//! | `error` | its errors, reduced to the system's |

pub(super) mod counts;
pub(super) mod error;
pub(super) mod executor;
pub(super) mod fd;
pub(super) mod huge_pool;
pub(super) mod readable;
pub(super) mod tasks;
pub(super) mod timers;
pub(super) mod watch;
