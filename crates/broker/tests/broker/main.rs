//! The broker over real sockets on real files.

mod client;
mod commands;
#[cfg(target_arch = "x86_64")]
mod copies;
mod exposition;
mod faults;
mod flood;
mod full_disk;
mod groups;
mod hostile;
mod limits;
mod messages;
mod names;
mod program;
mod recorded;
mod replay;
mod running;
mod shapes;
mod stopping;
