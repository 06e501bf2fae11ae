//! The atomics and locks of the crossing. The loom test puts its own in place of these, so that
//! [`crate::wake`] and [`crate::free`] are checked as they are, not as a copy.

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
