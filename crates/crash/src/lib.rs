//! Rigs that break the engine on real files: processes that are killed, power that is cut under a
//! real file system, bits that rot, disks that misbehave. Each drives the public API like any user,
//! and each judges by what was acknowledged.
#![forbid(unsafe_code)]

pub mod hostile;
