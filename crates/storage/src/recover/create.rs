//! Creating a partition, or one more segment of it.

use std::path::Path;
use std::rc::Rc;

use corelog_format::Mark;
use corelog_io::{Disk, IoError, Platform};

use crate::consumers::Listed;
use crate::index::SparseIndex;
use crate::marker::Marker;
use crate::marks::Marks;
use crate::partition::Opened;
use crate::roll::{self, Create};
use crate::segments::{Segment, Segments, log_path};
use crate::{LogConfig, OpenError, Place, Shared};

/// Creates the directories, the first segment and the manifest, in that order: what a crash leaves
/// of it is created again. All of it is durable on return.
pub(super) async fn create<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    config: &LogConfig,
    listed: Listed,
) -> Result<Opened<P>, OpenError> {
    let disk = shared.platform().disk();
    create_dirs(disk, &place.root, &place.dir).await?;
    let end = Mark { segment: 0, position: 0, next_offset: 0, last_timestamp: 0 };
    let mut marker = Marker::new(&place.dir, place.incarnation, 0, 0, end);
    // Names of an attempt whose sync failed are not covered by one that succeeds now.
    remove(disk, &log_path(&place.dir, 0)).await?;
    remove(disk, marker.path()).await?;
    // The manifest is empty until the names of both files are durable: it says that they are.
    marker.create(disk).await?;
    let file = segment(disk, place, 0, config).await?;
    marker.store(shared, end).await?;
    let opened = Opened {
        segments: Segments::new(vec![Segment::new(0)]),
        index: SparseIndex::default(),
        file: Some(Rc::new(file)),
        start: 0,
        end,
        last_block: Vec::new(),
        marks: Marks::new(marker),
        listed,
        adopted_end: 0,
        fault: None,
    };
    Ok(opened)
}

/// Removes a file that may not be there.
async fn remove<D: Disk>(disk: &D, path: &Path) -> Result<(), IoError> {
    match disk.remove(path).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Creates the directories from `root` (which exists) down to `dir`, and syncs the parent of each,
/// also of those that were there: an earlier attempt may have been cut off before its sync.
async fn create_dirs<D: Disk>(disk: &D, root: &Path, dir: &Path) -> Result<(), IoError> {
    let mut missing = Vec::new();
    let mut at = dir;
    while at != root {
        missing.push(at);
        match at.parent() {
            Some(parent) => at = parent,
            None => break,
        }
    }
    for dir in missing.into_iter().rev() {
        disk.create_dir(dir).await?;
        let Some(parent) = dir.parent() else { continue };
        if let Err(error) = disk.sync_dir(parent).await {
            // Its name may stand in the cache only, and no later sync says anything about it: the
            // next attempt makes it anew. One that others have used meanwhile stays.
            let _ = disk.remove_dir(dir).await;
            return Err(error);
        }
    }
    Ok(())
}

/// Creates an empty, locked segment file, its name durable.
pub(super) async fn segment<D: Disk>(
    disk: &D,
    place: &Place,
    first_offset: u64,
    config: &LogConfig,
) -> Result<D::File, OpenError> {
    match roll::create(disk, &place.dir, first_offset, config).await {
        Ok(file) => Ok(file),
        Err(Create::NotNow(error) | Create::Fault(error)) => Err(error.into()),
    }
}
