//! Disks that misbehave under an engine that runs. Root only: FUSE, loop devices, mounts.

mod bounds;
mod campaign;
mod clock;
mod devices;
mod disk;
mod opening;
mod running;
mod support;
