//! Requests that are on their way, and what comes back.

pub use crate::change::Change;
pub use corelog_shard::{Batches, Call, Producer, RecordBatch};
