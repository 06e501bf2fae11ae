//! A single-node broker for the clients of Apache Iggy's protocol 0.11, on the public interface of
//! the engine `corelog`.
//!
//! # The life of a request
//!
//! | step | file | what happens |
//! | --- | --- | --- |
//! | connection | `listener` | each shard listens on the same address; a connection stays on the shard that accepted it |
//! | bytes | `socket` | received once, into the memory that the engine then takes over |
//! | frame | `frame`, `connection` | a header of 256 bytes is taken apart, the body follows; one frame at a time |
//! | command | `operation`, `command` | which one, and what stands in it |
//! | answer | `serve` | the engine is asked: a batch is admitted here and crosses to its owner, a poll comes back as views of the owner's memory |
//! | status | `status` | the engine's errors as numbers of the wire |
//! | reply | `answer`, `socket` | a header and a body; polled batches go out as they lie in memory |
//!
//! `clients` and `session` know who is connected and as whom; `notes` tells the operator.
#![forbid(unsafe_code)]

mod answer;
mod broker;
mod clients;
mod command;
mod connection;
mod frame;
mod listener;
mod notes;
mod operation;
mod process;
mod protocol;
mod root;
mod serve;
mod session;
mod shared;
mod socket;
mod sockets;
mod status;

pub use broker::{Broker, Config, StartError};
pub use root::{PASSWORD_VARIABLE, PasswordLength, RootPassword};
