//! One partition's log on one core.
//!
//! The life of a batch, file by file:
//!
//! | step | file |
//! | --- | --- |
//! | an admitted batch, and when its append is answered | `batch`, `waiting` |
//! | stamped, copied into the tail, dispatched; watermarks move | `appender`, `tail`, `writes`, `space`, `watermarks` |
//! | the I/O that the appender asks for | `partition` |
//! | its file is closed while others need the handle, and opened again | `actives`, `parking` |
//! | the segment is full: seal, begin the next | `roll`, `segments`, `index` |
//! | the durable mark follows | `marks`, `marker` |
//! | polled: planned, from memory or from the disk, verified, sliced | `read` |
//! | its front is trimmed away | `sealed`, `retention`, `trim` |
//! | what consumers have stored | `consumers` |
//! | after a fault: ended and recovered in place | `reopen` |
//! | opened again after a crash | `recover` |
//! | an index that is of no use is made again | `reindex` |
//! | what operators see of it | `stats`, `figures`, `notice` |
//!
//! Nothing here knows another core, a thread or a runtime: disk, clock and tasks come through the
//! traits of `corelog-io`, real or simulated.
#![forbid(unsafe_code)]

mod actives;
mod appender;
mod batch;
#[cfg(feature = "canary")]
pub mod canary;
#[cfg(not(feature = "canary"))]
mod canary;
mod config;
mod consumers;
mod error;
mod figures;
mod index;
mod marker;
mod marks;
mod memory;
mod notice;
mod parking;
mod partition;
mod pump;
mod read;
mod recover;
mod reindex;
mod reopen;
mod retention;
mod roll;
mod room;
mod sealed;
mod segments;
mod shared;
mod signal;
mod space;
mod stats;
mod tail;
mod trim;
mod waiting;
mod watch;
mod watermarks;
mod writes;

pub use batch::{Ack, AdmittedBatch, Answer, Appended, Scratch};
pub use config::{ConfigError, LogConfig, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SharedLimits};
pub use consumers::{ConsumerKey, OffsetError};
pub use error::{AppendError, CloseError, Fault, OpenError, PollError, ReopenError, TrimError};
pub use figures::Figures;
pub use marker::MANIFEST_FILE;
pub use notice::{Notice, Observer};
pub use partition::{Partition, Place};
pub use read::{From, Piece, PollQuery, Polled, Served};
pub use recover::{OpenDamage, OpenReport};
pub use retention::Retention;
pub use sealed::SealedSegment;
pub use shared::Shared;
pub use stats::{Counts, PartitionStats};
pub use trim::Trimmed;
pub use watermarks::Watermarks;
