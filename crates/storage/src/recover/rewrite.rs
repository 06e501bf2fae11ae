//! Writes what stands above the durable mark a second time, before anyone is told that it is
//! durable.
//!
//! A sync that failed in the life before may have lost what it was to keep, and a sync that succeeds
//! now says nothing about it: the kernel, or the device, may count it as done. What can be read may
//! come from a cache that a power cut empties. Only new writes are covered by a new sync. Nobody can
//! know here whether a sync has failed (the process may have died before it could say so), so every
//! opening that finds something above the mark does this. It costs writing what the walk has just
//! read: at most 64 MiB or one second of it where syncs were asked for, up to a segment where none
//! was. A clean close leaves nothing above the mark. Where the manifest cannot be read, nobody knows
//! where the mark stood: then it is the whole of the last segment.
//!
//! Only verified bytes are written, each to the place where it was read, and what stands beside them
//! in a block stays as it is: an interruption leaves what was there, and so does a decision that
//! nothing is cut (at most a few zeros more behind the last byte). Where no mark has called files
//! synced (another server's, or those behind damage) they are synced before the mark passes them, and no
//! more: a log with damage below its mark is evidence, and `docs/durability.md` says what that leaves.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use corelog_format::Expect;
use corelog_io::{BLOCK, Buf, Disk, File, IoError, IoOp, Open, Platform, align_down, align_up};

use super::OpenReport;
use super::survey::Survey;
use super::table::Verdict;
use super::walk::{Above, Walked};
use crate::partition::{BytesOf, FileOf};
use crate::read::{Damage, ReadFault, Walker};
use crate::segments::log_path;
use crate::{OpenError, Place, Shared};

/// Bytes read and written at once; less where buffers are short.
const COPY_BYTES: usize = 256 << 10;

/// Rewrites what was walked and is in doubt, and syncs it; syncs what else the mark will pass. Answers
/// how long the last file walked is then.
pub(super) async fn in_doubt<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    survey: &Survey,
    walked: &Walked<FileOf<P>>,
    report: &mut OpenReport,
) -> Result<u64, OpenError> {
    let mut last = walked.len;
    let partition_id = place.partition_id;
    for above in walked.above.iter().filter(|above| !above.range.is_empty()) {
        let file = handle(shared, place, walked, above.segment).await?;
        let path = log_path(&place.dir, above.segment);
        let mut part = Part { shared, path, file, partition_id, window: None };
        // One that was walked to its end is cut there; of the last one the table decides, and where
        // it says that the log goes on, nothing but zeros stands behind.
        let is_last = above.segment == walked.end.segment;
        let len = match is_last && walked.row.verdict != Verdict::Keep {
            true => above.len,
            false => above.range.end,
        };
        if is_last {
            last = len;
        }
        part.rewrite(above, len).await?;
        report.rewritten_bytes += above.range.end - above.range.start;
    }
    for segment in unsynced(survey, walked) {
        handle(shared, place, walked, segment).await?.sync().await?;
    }
    Ok(last)
}

/// Segments that will stand below the mark and that no mark has called synced.
fn unsynced<F>(survey: &Survey, walked: &Walked<F>) -> Vec<u64> {
    let stop = walked.file.is_some().then_some(walked.end.segment);
    let behind = walked.behind.iter().map(|later| later.segment);
    match (survey.mark(), walked.row.verdict) {
        (None, Verdict::NewSegment) => walked.kept.iter().copied().chain(behind).collect(),
        (None, _) => walked.kept.clone(),
        (Some(_), Verdict::NewSegment) => stop.into_iter().chain(behind).collect(),
        (Some(_), _) => Vec::new(),
    }
}

/// The locked handle of the last segment walked; another one for others, whose lock was free when
/// they were walked.
async fn handle<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    walked: &Walked<FileOf<P>>,
    segment: u64,
) -> Result<Rc<FileOf<P>>, OpenError> {
    match &walked.file {
        Some(file) if segment == walked.end.segment => Ok(Rc::clone(file)),
        _ => {
            let how = Open { write: true, ..Open::default() };
            let path = log_path(&place.dir, segment);
            Ok(Rc::new(shared.platform().disk().open(&path, how).await?))
        }
    }
}

/// One segment's part.
struct Part<'a, P: Platform> {
    shared: &'a Shared<P>,
    path: PathBuf,
    file: Rc<FileOf<P>>,
    partition_id: u32,
    window: Option<Window<<P::Disk as Disk>::Buf>>,
}

/// Bytes on their way back: the first `filled` bytes of `buf` belong at `start`.
struct Window<B> {
    buf: B,
    start: u64,
    filled: usize,
}

impl<P: Platform> Part<'_, P> {
    /// Rewrites the batches in `above`, and makes them durable and the file `len` bytes long.
    async fn rewrite(&mut self, above: &Above, len: u64) -> Result<(), OpenError> {
        let expect = Expect {
            partition_id: Some(u64::from(self.partition_id)),
            next_offset: Some(above.next_offset),
            after_timestamp: None,
            time_may_go_back: true,
        };
        let (from, to) = (above.range.start, above.range.end);
        let mut walker = Walker::new(Rc::clone(&self.file), from, to, 0, expect, COPY_BYTES);
        self.window = Some(self.open(from).await?);
        loop {
            match walker.next().await {
                Ok(Some(found)) => self.push(&found.bytes.as_ref()[found.range]).await?,
                Ok(None) => break,
                Err(ReadFault::Io(error)) => return Err(error.into()),
                Err(ReadFault::Damage(damage)) => return Err(changed(&self.path, damage).into()),
            }
        }
        if let Some(mut window) = self.window.take() {
            // Zeros, where the file is cut or ends.
            if len > to {
                self.close(&mut window).await?;
            }
            self.write(window).await?;
        }
        // The length is in doubt as the bytes are: it is changed, so that a sync keeps it.
        if above.len == len {
            self.file.set_len(align_up(len) + BLOCK as u64).await?;
        }
        self.file.set_len(len).await?;
        Ok(self.file.sync().await?)
    }

    /// A window from the block on that holds `position`, with what stands before it in that block.
    async fn open(&self, position: u64) -> Result<Window<<P::Disk as Disk>::Buf>, OpenError> {
        let start = align_down(position);
        let mut window = self.window_at(start).await?;
        window.filled = (position - start) as usize;
        if window.filled > 0 {
            let block = self.block(start).await?;
            window.buf.as_mut()[..window.filled].copy_from_slice(&block[..window.filled]);
        }
        Ok(window)
    }

    /// Fills the window's last block with what stands there behind the batches.
    async fn close(&self, window: &mut Window<<P::Disk as Disk>::Buf>) -> Result<(), OpenError> {
        let (full, filled) = (window.filled / BLOCK * BLOCK, window.filled % BLOCK);
        if filled > 0 {
            let block = self.block(window.start + full as u64).await?;
            window.buf.as_mut()[window.filled..full + BLOCK].copy_from_slice(&block[filled..]);
            window.filled = full + BLOCK;
        }
        Ok(())
    }

    /// One block, zeros behind the file's end. No checksum covers a part of a batch: two reads that
    /// agree must do.
    async fn block(&self, start: u64) -> Result<Vec<u8>, OpenError> {
        let once: BytesOf<P> = self.file.read_at(start, BLOCK).await?;
        let again = self.file.read_at(start, BLOCK).await?;
        if once.as_ref() != again.as_ref() {
            return Err(differs(&self.path, start).into());
        }
        let mut block = once.as_ref().to_vec();
        block.resize(BLOCK, 0);
        Ok(block)
    }

    async fn window_at(&self, start: u64) -> Result<Window<<P::Disk as Disk>::Buf>, OpenError> {
        let buf = self.shared.alloc_up_to(COPY_BYTES, &self.path).await?;
        Ok(Window { buf, start, filled: 0 })
    }

    async fn push(&mut self, mut bytes: &[u8]) -> Result<(), OpenError> {
        while !bytes.is_empty() {
            let window = self.window.as_mut().expect("a window is open while batches are copied");
            let capacity = window.buf.as_ref().len();
            let room = capacity - window.filled;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            window.buf.as_mut()[window.filled..][..now.len()].copy_from_slice(now);
            window.filled += now.len();
            bytes = later;
            if window.filled == capacity {
                let next = window.start + capacity as u64;
                if let Some(full) = self.window.take() {
                    self.write(full).await?;
                }
                self.window = Some(self.window_at(next).await?);
            }
        }
        Ok(())
    }

    async fn write(&self, mut window: Window<<P::Disk as Disk>::Buf>) -> Result<(), OpenError> {
        let len = align_up(window.filled as u64) as usize;
        if len > 0 {
            window.buf.as_mut()[window.filled..len].fill(0);
            self.file.write_at(window.buf.freeze(len), window.start).await?;
        }
        Ok(())
    }
}

/// A batch that the walk has verified does not verify now.
fn changed(path: &Path, Damage { at, why, .. }: Damage) -> IoError {
    let text = format!("read again it is not what it was a moment ago ({why}); open again");
    IoError::new(IoOp::Read, path, std::io::Error::other(text)).at(at)
}

fn differs(path: &Path, at: u64) -> IoError {
    let text = "two reads of one block differ; open again";
    IoError::new(IoOp::Read, path, std::io::Error::other(text)).at(at)
}
