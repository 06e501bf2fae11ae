//! A single-node broker for the clients of Apache Iggy's protocol 0.11, on the public interface of
//! the engine `corelog`.
//!
//! # The life of a request
//!
//! | step | file | what happens |
//! | --- | --- | --- |
//! | connection | `listener` | each shard listens on the same address; a connection stays on the shard that accepted it |
//! | bytes | `sockets`, `socket` | one set of all sockets of a shard wakes who waits; received once, into the memory that the engine then takes over |
//! | frame | `frame`, `connection` | a header of 256 bytes is taken apart, the body follows; one frame at a time |
//! | command | `operation`, `command` | which one, and what stands in it |
//! | answer | `serve` | the engine is asked: a batch is admitted here and crosses to its owner, a poll comes back as views of the owner's memory |
//! | status | `status` | the engine's errors as numbers of the wire |
//! | reply | `answer`, `socket` | a header and a body; polled batches go out as they lie in memory |
//!
//! `clients` and `session` know who is connected and as whom, `credentials` who may be. `limits`
//! bounds what clients may use and ends those that take too long; `log` and `scrape` tell the
//! operator, whose words `config` reads.
#![forbid(unsafe_code)]

mod answer;
mod broker;
mod clients;
mod command;
pub mod config;
mod connection;
mod credentials;
mod frame;
mod limits;
mod listener;
mod log;
mod operation;
mod process;
mod protocol;
mod root;
mod scrape;
mod serve;
mod session;
mod shared;
mod socket;
mod sockets;
mod status;

#[doc(hidden)]
pub mod probe;

pub use broker::{Broker, Config, StartError};
pub use credentials::PasswordFileError;
pub use limits::ClientsMay;
pub use log::{Log, LogFormat, LogLevel, UnknownWord, log_to_stderr};
pub use root::{PASSWORD_VARIABLE, PasswordLength, RootPassword};
