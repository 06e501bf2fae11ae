//! What an engine tells operators, each event in a situation that causes it, on disks that misbehave
//! where that takes one. Needs root and /dev/fuse.

mod disk;
mod files;
mod life;
mod subscriber;
mod support;
