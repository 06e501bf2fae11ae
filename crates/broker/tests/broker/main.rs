//! The broker over real sockets on real files.

mod client;
mod faults;
mod full_disk;
mod groups;
mod messages;
mod program;
mod recorded;
mod replay;
mod running;
mod shapes;
