//! Disks that misbehave under an engine that runs. Root only: FUSE, loop devices, mounts.

mod bounds;
mod campaign;
mod clock;
mod devices;
mod disk;
mod opening;
mod purge;
mod running;
mod support;
