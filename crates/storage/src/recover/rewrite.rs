//! Writes what stands above the durable mark a second time, before anyone is told that it is
//! durable.
//!
//! A sync that failed in the life before may have lost what it was to keep, and a sync that succeeds
//! now says nothing about it: the kernel, or the device, may count it as done. What can be read may
//! come from a cache that a power cut empties. Only new writes are covered by a new sync. Nobody can
//! know here whether a sync has failed (the process may have died before it could say so), so every
//! opening that finds something above the mark does this. It costs writing what the walk has just
//! read: at most 64 MiB or one second of it where syncs were asked for, up to a segment where none
//! was. A clean close leaves nothing above the mark.
//!
//! Only verified bytes are written, each to the place where it was read, so an interruption leaves
//! what was there.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use corelog_format::{Expect, Mark};
use corelog_io::{BLOCK, Buf, Disk, File, IoError, IoOp, Open, Platform, align_down, align_up};

use super::OpenReport;
use crate::partition::{BytesOf, FileOf};
use crate::read::{Damage, ReadFault, Walker};
use crate::segments::log_path;
use crate::{LogConfig, OpenError, Place, Shared};

/// Bytes read and written at once.
const COPY_BYTES: usize = 256 << 10;

/// Rewrites the log from `mark` to `end`; the files that end before `end` are synced as well, and
/// `last`, which holds it, is left for the caller to sync.
pub(super) async fn above_mark<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    config: &LogConfig,
    (mark, end): (Mark, Mark),
    segments: &[u64],
    last: &Rc<FileOf<P>>,
    report: &mut OpenReport,
) -> Result<(), OpenError> {
    let partition_id = place.partition_id;
    for segment in segments.iter().copied().filter(|segment| *segment >= mark.segment) {
        let path = log_path(&place.dir, segment);
        let (position, next_offset) = match segment == mark.segment {
            true => (mark.position, mark.next_offset),
            false => (0, segment),
        };
        let is_last = segment == end.segment;
        let (file, to) = match is_last {
            true => (Rc::clone(last), end.position),
            false => {
                let how = Open {
                    write: true,
                    dsync: config.enforce_fsync,
                    lock: true,
                    ..Open::default()
                };
                let file = Rc::new(shared.platform().disk().open(&path, how).await?);
                let len = file.len().await?;
                (file, len)
            }
        };
        let mut part = Part { shared, path, file, partition_id, window: None };
        let written = part.rewrite(position, next_offset, to).await?;
        report.rewritten_bytes += written;
        if written > 0 && !is_last {
            part.file.sync().await?;
        }
    }
    Ok(())
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
    /// Rewrites the batches from `position` to `to` and cuts the file behind them. Answers how many
    /// bytes they are.
    async fn rewrite(
        &mut self,
        position: u64,
        next_offset: u64,
        to: u64,
    ) -> Result<u64, OpenError> {
        let expect = Expect {
            partition_id: Some(u64::from(self.partition_id)),
            next_offset: Some(next_offset),
            after_timestamp: None,
            time_may_go_back: true,
        };
        let mut walker = Walker::new(Rc::clone(&self.file), position, to, 0, expect, COPY_BYTES);
        loop {
            let found = match walker.next().await {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(ReadFault::Io(error)) => return Err(error.into()),
                Err(ReadFault::Damage(damage)) => return Err(changed(&self.path, damage).into()),
            };
            if self.window.is_none() {
                self.window = Some(self.open(found.at).await?);
            }
            self.push(&found.bytes.as_ref()[found.range]).await?;
        }
        let end = walker.position();
        if let Some(window) = self.window.take() {
            self.write(window).await?;
            // The length is in doubt as the bytes are: it is changed, so that a sync keeps it.
            self.file.set_len(end + BLOCK as u64).await?;
            self.file.set_len(end).await?;
        }
        Ok(end - position)
    }

    /// A window from the block on that holds `position`, with what stands before it in that block.
    async fn open(&self, position: u64) -> Result<Window<<P::Disk as Disk>::Buf>, OpenError> {
        let start = align_down(position);
        let mut window = self.window_at(start).await?;
        window.filled = (position - start) as usize;
        if window.filled > 0 {
            let before: BytesOf<P> = self.file.read_at(start, BLOCK).await?;
            let again = self.file.read_at(start, BLOCK).await?;
            // No checksum covers a part of a batch: two reads that agree must do.
            let (before, again) = (before.as_ref(), again.as_ref());
            let same = before.get(..window.filled).filter(|bytes| again.starts_with(bytes));
            let Some(bytes) = same else { return Err(differs(&self.path, start).into()) };
            window.buf.as_mut()[..window.filled].copy_from_slice(bytes);
        }
        Ok(window)
    }

    async fn window_at(&self, start: u64) -> Result<Window<<P::Disk as Disk>::Buf>, OpenError> {
        let buf = self.shared.alloc_soon(COPY_BYTES, &self.path).await?;
        Ok(Window { buf, start, filled: 0 })
    }

    async fn push(&mut self, mut bytes: &[u8]) -> Result<(), OpenError> {
        while !bytes.is_empty() {
            let window = self.window.as_mut().expect("a window is open while batches are copied");
            let room = COPY_BYTES - window.filled;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            window.buf.as_mut()[window.filled..][..now.len()].copy_from_slice(now);
            window.filled += now.len();
            bytes = later;
            if window.filled == COPY_BYTES {
                let next = window.start + COPY_BYTES as u64;
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
