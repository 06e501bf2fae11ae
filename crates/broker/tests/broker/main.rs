//! The broker over real sockets on real files.

mod client;
mod recorded;
mod replay;
mod running;
mod shapes;
