//! Disk, clock and tasks of one shard, as storage sees them.

use corelog_io::Platform;

use super::clock::RealClock;
use super::disk::RealDisk;
use super::spawn::RealSpawn;

/// The real platform: io_uring by one of the runtimes, O_DIRECT.
#[derive(Clone)]
pub(crate) struct RealPlatform {
    disk: RealDisk,
    clock: RealClock,
    spawn: RealSpawn,
}

impl RealPlatform {
    pub(super) fn new(disk: RealDisk, clock: RealClock, spawn: RealSpawn) -> RealPlatform {
        RealPlatform { disk, clock, spawn }
    }
}

impl Platform for RealPlatform {
    type Disk = RealDisk;
    type Clock = RealClock;
    type Spawn = RealSpawn;

    fn disk(&self) -> &RealDisk {
        &self.disk
    }

    fn clock(&self) -> &RealClock {
        &self.clock
    }

    fn spawn(&self) -> &RealSpawn {
        &self.spawn
    }
}
