//! Keeps what a cut would lose: copies of whole batches, and files that do not continue the log.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use corelog_format::{Mark, segment_file_name};
use corelog_io::{BLOCK, Buf, Disk, File, Open, Platform, align_down, align_up};

use super::OpenReport;
use super::resync::Search;
use super::survey::QUARANTINE_DIR;
use crate::partition::FileOf;
use crate::segments::{index_path, log_path};
use crate::{OpenError, Place, Shared};

/// Bytes copied at once.
const COPY_BYTES: u64 = 256 << 10;

/// Counts the bytes of `file` in `range` as cut; if any whole batch stands in them, a copy of all
/// of them goes to quarantine, durably, before the caller cuts.
pub(super) async fn rescue_tail<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    end: Mark,
    file: &Rc<FileOf<P>>,
    range: Range<u64>,
    report: &mut OpenReport,
) -> Result<(), OpenError> {
    if range.is_empty() {
        return Ok(());
    }
    report.cut_bytes += range.end - range.start;
    let disk = shared.platform().disk();
    let search = Search {
        file: Rc::clone(file),
        partition_id: place.partition_id,
        next_offset: end.next_offset,
    };
    if search.highest(range.clone(), &mut report.bytes_read).await?.is_none() {
        return Ok(());
    }
    let to = free_name(disk, place, end.segment, Some(range.start)).await?;
    copy(shared, file.as_ref(), range, &to).await?;
    disk.sync_dir(&place.dir.join(QUARANTINE_DIR)).await?;
    report.quarantined.push(to);
    Ok(())
}

/// Moves a segment that does not continue the log to quarantine, durably; an empty one is removed.
pub(super) async fn move_away<D: Disk>(
    disk: &D,
    place: &Place,
    segment: u64,
    report: &mut OpenReport,
) -> Result<(), OpenError> {
    let path = log_path(&place.dir, segment);
    let file = disk.open(&path, Open { lock: true, write: true, ..Open::default() }).await?;
    let len = file.len().await?;
    file.close().await?;
    if len == 0 {
        disk.remove(&path).await?;
    } else {
        report.cut_bytes += len;
        let to = free_name(disk, place, segment, None).await?;
        disk.rename(&path, &to).await?;
        disk.sync_dir(&place.dir.join(QUARANTINE_DIR)).await?;
        report.quarantined.push(to);
    }
    // Its index would lie about a later file of the same name.
    match disk.remove(&index_path(&place.dir, segment)).await {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    Ok(disk.sync_dir(&place.dir).await?)
}

/// A name in the quarantine directory that is not taken: the segment's, the position where the
/// bytes stood, and a count.
async fn free_name<D: Disk>(
    disk: &D,
    place: &Place,
    segment: u64,
    position: Option<u64>,
) -> Result<PathBuf, OpenError> {
    let dir = place.dir.join(QUARANTINE_DIR);
    disk.create_dir(&dir).await?;
    disk.sync_dir(&place.dir).await?;
    let taken = disk.list(&dir).await?;
    let from = position.map_or_else(String::new, |position| format!(".from-{position}"));
    let mut count = 0_u64;
    loop {
        let name = format!("{}{from}.{count}", segment_file_name(segment));
        if taken.iter().all(|(taken, _)| taken.to_str() != Some(&name)) {
            return Ok(dir.join(name));
        }
        count += 1;
    }
}

/// Copies `range` of `from` to a new file, durably.
async fn copy<P: Platform>(
    shared: &Shared<P>,
    from: &FileOf<P>,
    range: Range<u64>,
    to: &Path,
) -> Result<(), OpenError> {
    let disk = shared.platform().disk();
    let file = disk.open(to, Open { create_new: true, write: true, ..Open::default() }).await?;
    let mut at = range.start;
    while at < range.end {
        let len = (range.end - at).min(COPY_BYTES);
        let start = align_down(at);
        // Source positions are not aligned, the copy's are: the bytes move within the buffer.
        let read = (align_up(at + len) - start) as usize;
        let bytes = from.read_at(start, read).await?;
        let skip = (at - start) as usize;
        let source = bytes.as_ref().get(skip..).unwrap_or_default();
        let source = &source[..source.len().min(len as usize)];
        let padded = align_up(source.len() as u64) as usize;
        let mut buf = shared.alloc_soon(padded.max(BLOCK), to).await?;
        buf.as_mut().fill(0);
        buf.as_mut()[..source.len()].copy_from_slice(source);
        file.write_at(buf.freeze(padded.max(BLOCK)), at - range.start).await?;
        at += len;
    }
    file.set_len(range.end - range.start).await?;
    file.sync().await?;
    Ok(file.close().await?)
}
