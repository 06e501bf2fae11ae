//! A partition is emptied, as the engine does it (design section 9): the catalog has the new life of
//! the id first, then the old one is closed, its directory goes to the trash, and the new one
//! begins. The catalog is a number here that no crash takes back.

use std::path::{Path, PathBuf};

use corelog_io::{Disk, IoError, Platform};

use crate::door::Control;
use crate::opening::{Engine, dir_of, judge};
use crate::probes::Probe;
use crate::world::World;

const TRASH: &str = "/trash";

/// Empties a partition. A crash at any place in it leaves what the next opening ends.
pub(crate) async fn purge(world: &World, engine: &Engine, partition: usize) {
    let part = &world.parts[partition];
    if part.changing.replace(true) {
        return;
    }
    let over = part.incarnation.get();
    part.incarnation.set(over + 1);
    world.note(&format!("p{partition} is to be emptied: life {} begins", over + 1));
    if let Err(error) = engine.close(world, partition).await {
        judge(world, partition, "close", &error);
    }
    if let Err(error) = move_away(world, partition, over).await {
        judge(world, partition, "move", &error);
    }
    while !world.has_failed() {
        match engine.open(world, partition).await {
            Ok(()) => break,
            Err(error) => judge(world, partition, "open", &error),
        };
        world.sleep_us(5_000).await;
    }
    world.hit(Probe::Purged);
    part.changing.set(false);
    empty_trash(world).await;
}

/// Moves the directory of a life that is over to the trash, durably.
pub(crate) async fn move_away(world: &World, partition: usize, life: u64) -> Result<(), Control> {
    let moved = to_trash(world, partition, life).await;
    world.note(&format!("p{partition} life {life} goes to the trash: {moved:?}"));
    moved.map_err(|error| Control::Io((&error).into()))
}

async fn to_trash(world: &World, partition: usize, life: u64) -> Result<(), IoError> {
    let (disk, trash) = (world.platform().disk(), Path::new(TRASH));
    let from = dir_of(partition);
    disk.create_dir(trash).await?;
    disk.sync_dir(Path::new("/")).await?;
    match disk.rename(&from, &trash.join(format!("{partition}-{life}"))).await {
        Err(error) if error.is_not_found() => return Ok(()),
        renamed => renamed?,
    }
    disk.sync_dir(trash).await?;
    disk.sync_dir(from.parent().expect("it has one")).await
}

/// Removes what lies in the trash, as far as that goes.
pub(crate) async fn empty_trash(world: &World) {
    let disk = world.sim.disk();
    let gone: Vec<PathBuf> =
        disk.files().into_iter().filter(|path| path.starts_with(TRASH)).collect();
    for path in gone {
        let _ = disk.remove(&path).await;
    }
}
