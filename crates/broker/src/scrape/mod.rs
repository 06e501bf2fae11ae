//! Metrics in the text format of Prometheus: the engine's, the broker's, the process's.
//!
//! | file | what it is |
//! | --- | --- |
//! | `counters` | what the connections of a shard have counted |
//! | `broker` | the broker's counters as metrics |
//! | `recorder` | takes what the engine publishes |
//! | `text` | families of metrics as text |
//! | `http` | who asks for it |

mod broker;
mod counters;
mod http;
mod recorder;
mod text;

pub(crate) use counters::{Counters, Login};
pub(crate) use http::Exporter;
