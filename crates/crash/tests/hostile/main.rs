//! Disks that misbehave under an engine that runs. Root only: FUSE, loop devices, mounts.

mod disk;
mod support;
