//! (being written)
#![deny(unsafe_code)]
#![allow(dead_code, unused_imports, reason = "the engine above the runtime comes next")]

mod runtime;

pub use runtime::{DirectIo, DirectIoError};
