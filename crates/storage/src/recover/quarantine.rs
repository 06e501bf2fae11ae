//! Keeps what a cut would lose: copies of whole batches, and files that do not continue the log.
//!
//! A copy is written under a temporary name and renamed when it is durable, and one that is there
//! already is not made again: so an opening that was interrupted leaves neither halves nor doubles.
//! Zeros behind the last byte that is not zero are space that was reserved: they are left out.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use corelog_format::{Mark, segment_file_name};
use corelog_io::{Buf, Disk, File, IoError, Open, Platform, align_down, align_up};

use super::OpenReport;
use super::resync::{Later, Searched};
use super::survey::QUARANTINE_DIR;
use crate::partition::FileOf;
use crate::segments::{index_path, log_path};
use crate::{OpenError, Place, Shared};

/// Bytes copied at once.
const COPY_BYTES: u64 = 256 << 10;

/// Counts the bytes of `file` behind `end` as cut; if any whole batch stands in them, a copy of
/// what is not zero goes to quarantine, durably, before the caller cuts.
pub(super) async fn rescue_tail<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    end: Mark,
    file: &Rc<FileOf<P>>,
    rest: Searched,
    report: &mut OpenReport,
) -> Result<(), OpenError> {
    report.cut_bytes += file.len().await?.saturating_sub(end.position);
    if rest.reached.is_none() && !rest.strays {
        return Ok(());
    }
    // What is copied stays until it is cut, also where the power fails between the two: the next
    // attempt sees the same bytes.
    file.sync().await?;
    let name = format!("{}.from-{}", segment_file_name(end.segment), end.position);
    let aside = Aside::take(shared.platform().disk(), place, name).await?;
    let range = end.position..rest.used;
    let to = match aside.holding(file.as_ref(), &range).await? {
        Some(there) => there,
        None => {
            let temporary = aside.dir.join(format!("{}.tmp", aside.name));
            let copied = copy(shared, file.as_ref(), range, &temporary).await;
            if let Err(error) = copied {
                // Half a copy would take the space that is missing.
                let _ = shared.platform().disk().remove(&temporary).await;
                return Err(error);
            }
            let to = aside.free();
            shared.platform().disk().rename(&temporary, &to).await?;
            to
        }
    };
    shared.platform().disk().sync_dir(&aside.dir).await?;
    report.quarantined.push(to);
    Ok(())
}

/// Moves a segment that does not continue the log to quarantine, durably; a blank one is removed.
pub(super) async fn move_away<D: Disk>(
    disk: &D,
    place: &Place,
    later: &Later,
    report: &mut OpenReport,
) -> Result<(), OpenError> {
    let path = log_path(&place.dir, later.segment);
    let file = disk.open(&path, Open { lock: true, write: true, ..Open::default() }).await?;
    if later.is_blank() {
        file.close().await?;
        disk.remove(&path).await?;
        report.blank_removed += 1;
    } else {
        let used = later.searched.used;
        report.cut_bytes += used;
        if file.len().await? != used {
            file.set_len(used).await?;
        }
        file.sync().await?;
        file.close().await?;
        let aside = Aside::take(disk, place, segment_file_name(later.segment)).await?;
        let to = aside.free();
        disk.rename(&path, &to).await?;
        disk.sync_dir(&aside.dir).await?;
        report.quarantined.push(to);
    }
    // Its index would lie about a later file of the same name.
    remove_if_there(disk, &index_path(&place.dir, later.segment)).await?;
    Ok(disk.sync_dir(&place.dir).await?)
}

/// Makes durable what was moved away by an opening that may have been cut off before it could: a move
/// that a power cut takes back brings a file back under a log that has grown over its name.
pub(super) async fn settle<D: Disk>(disk: &D, place: &Place) -> Result<(), OpenError> {
    disk.sync_dir(&place.dir.join(QUARANTINE_DIR)).await?;
    Ok(disk.sync_dir(&place.dir).await?)
}

/// Removes what a trim did not come to remove; says what is there still. It is not served either
/// way, so a file that cannot be removed is no reason not to open.
pub(super) async fn remove_leftovers<D: Disk>(
    disk: &D,
    place: &Place,
    leftovers: &[PathBuf],
) -> Result<Vec<PathBuf>, OpenError> {
    let mut left = Vec::new();
    for path in leftovers {
        if remove_if_there(disk, path).await.is_err() {
            left.push(path.clone());
        }
    }
    if left.len() < leftovers.len() {
        disk.sync_dir(&place.dir).await?;
    }
    Ok(left)
}

async fn remove_if_there<D: Disk>(disk: &D, path: &Path) -> Result<(), IoError> {
    match disk.remove(path).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// The quarantine directory, for copies of one name.
struct Aside<D> {
    disk: D,
    dir: PathBuf,
    name: String,
    /// Counts behind the name that are taken.
    taken: Vec<u64>,
}

impl<D: Disk> Aside<D> {
    async fn take(disk: &D, place: &Place, name: String) -> Result<Self, OpenError> {
        let dir = place.dir.join(QUARANTINE_DIR);
        disk.create_dir(&dir).await?;
        disk.sync_dir(&place.dir).await?;
        let names = disk.list(&dir).await?;
        let count = |taken: &str| taken.strip_prefix(&name)?.strip_prefix('.')?.parse().ok();
        let taken = names.iter().filter_map(|(taken, _)| count(taken.to_str()?)).collect();
        Ok(Aside { disk: disk.clone(), dir, name, taken })
    }

    fn path(&self, count: u64) -> PathBuf {
        self.dir.join(format!("{}.{count}", self.name))
    }

    /// A path that is not taken.
    fn free(&self) -> PathBuf {
        let count = self.taken.iter().max().map_or(0, |count| count + 1);
        self.path(count)
    }

    /// The copy that holds just these bytes of `from`, if one does.
    async fn holding<F: File>(
        &self,
        from: &F,
        range: &Range<u64>,
    ) -> Result<Option<PathBuf>, OpenError> {
        for count in &self.taken {
            let path = self.path(*count);
            let copy = self.disk.open(&path, Open::default()).await?;
            if copy.len().await? != range.end - range.start {
                continue;
            }
            match same(from, range, &copy).await {
                Ok(true) => return Ok(Some(path)),
                // A copy that cannot be read is none.
                Err(error) if !error.is_unreadable() => return Err(error.into()),
                Ok(false) | Err(_) => {}
            }
        }
        Ok(None)
    }
}

async fn same<A: File, B: File>(from: &A, range: &Range<u64>, copy: &B) -> Result<bool, IoError> {
    let mut at = range.start;
    while at < range.end {
        let len = (range.end - at).min(COPY_BYTES);
        let source = read(from, at, len).await?;
        let there = copy.read_at(at - range.start, align_up(len) as usize).await?;
        if there.as_ref().get(..len as usize) != Some(part(&source, at, len)) {
            return Ok(false);
        }
        at += len;
    }
    Ok(true)
}

/// The blocks that hold `len` bytes from `at` on.
async fn read<F: File>(file: &F, at: u64, len: u64) -> Result<F::Bytes, IoError> {
    let start = align_down(at);
    file.read_at(start, (align_up(at + len) - start) as usize).await
}

/// The `len` bytes from `at` on, or as many as there are, of the blocks that hold them.
fn part(blocks: &impl AsRef<[u8]>, at: u64, len: u64) -> &[u8] {
    let bytes = blocks.as_ref().get((at - align_down(at)) as usize..).unwrap_or_default();
    &bytes[..bytes.len().min(len as usize)]
}

/// Copies `range` of `from` to a new file, durably, in place of one of that name.
async fn copy<P: Platform>(
    shared: &Shared<P>,
    from: &FileOf<P>,
    range: Range<u64>,
    to: &Path,
) -> Result<(), OpenError> {
    let disk = shared.platform().disk();
    remove_if_there(disk, to).await?;
    let file = disk.open(to, Open { create_new: true, write: true, ..Open::default() }).await?;
    let mut at = range.start;
    while at < range.end {
        let wanted = (range.end - at).min(COPY_BYTES) as usize;
        let mut buf = shared.alloc_up_to(wanted, to).await?;
        let len = (range.end - at).min(buf.as_ref().len() as u64);
        let blocks = read(from, at, len).await?;
        // Source positions are not aligned, the copy's are: the bytes move within the buffer.
        let source = part(&blocks, at, len);
        let padded = align_up(source.len().max(1) as u64) as usize;
        buf.as_mut().fill(0);
        buf.as_mut()[..source.len()].copy_from_slice(source);
        file.write_at(buf.freeze(padded), at - range.start).await?;
        at += len;
    }
    file.set_len(range.end - range.start).await?;
    file.sync().await?;
    Ok(file.close().await?)
}
