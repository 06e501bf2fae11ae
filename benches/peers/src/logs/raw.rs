//! A plain file: what a program without a log's work (checksums, index, segments, recovery) gets.
//!
//! Buffered: pwrite, and fdatasync where the answer is durable. Direct: O_DIRECT at depth 1 into an
//! allocated file, with RWF_DSYNC where it is durable; batches are padded to blocks.

use std::fs::{File, OpenOptions};
use std::io::IoSlice;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::{ReadWriteFlags, pwritev2};

use super::{Log, Sink};
use crate::Fault;
use crate::work::{Class, RECORD_BYTES, Work};

const BLOCK: usize = 4096;

struct Raw {
    file: File,
    /// Where the next batch goes.
    at: AtomicU64,
    is_durable: bool,
    is_direct: bool,
}

/// Bytes that a batch takes.
fn step(work: Work, is_direct: bool) -> usize {
    let bytes = work.records as usize * RECORD_BYTES;
    if is_direct { bytes.next_multiple_of(BLOCK) } else { bytes }
}

pub(super) fn open(
    dir: &Path,
    class: Class,
    work: Work,
    is_direct: bool,
) -> Result<Box<dyn Log>, Fault> {
    let flags = if is_direct { OFlags::DIRECT } else { OFlags::empty() };
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .custom_flags(flags.bits() as i32)
        .open(dir.join("file"))?;
    if is_direct {
        let bytes = step(work, true) as u64 * work.batches * u64::from(work.producers);
        fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
        file.sync_all()?;
    }
    let is_durable = class.is_durable();
    Ok(Box::new(Raw { file, at: AtomicU64::new(0), is_durable, is_direct }))
}

impl Log for Raw {
    fn append(&self, _: u32, _: u64, records: &[&[u8]]) -> Result<(), Fault> {
        let bytes = records.len() * RECORD_BYTES;
        if !self.is_direct {
            // One call: the records lie one behind the other.
            let buffer = records.concat();
            let at = self.at.fetch_add(bytes as u64, Ordering::Relaxed);
            self.file.write_all_at(&buffer, at)?;
            if self.is_durable {
                self.file.sync_data()?;
            }
            return Ok(());
        }
        let padded = bytes.next_multiple_of(BLOCK);
        let mut buffer = vec![0; padded + BLOCK];
        let start = buffer.as_ptr().align_offset(BLOCK);
        let aligned = &mut buffer[start..start + padded];
        for (place, record) in aligned.chunks_mut(RECORD_BYTES).zip(records) {
            place.copy_from_slice(record);
        }
        let flags = if self.is_durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        let at = self.at.fetch_add(padded as u64, Ordering::Relaxed);
        let mut done = 0;
        while done < padded {
            let rest = [IoSlice::new(&aligned[done..])];
            done += pwritev2(&self.file, &rest, at + done as u64, flags)?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<bool, Fault> {
        self.file.sync_data()?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        Ok(())
    }
}

pub(super) fn read(dir: &Path, work: Work, is_direct: bool, sink: Sink<'_>) -> Result<(), Fault> {
    let file = File::open(dir.join("file"))?;
    let step = step(work, is_direct);
    let mut batch = vec![0; step];
    for number in 0..work.batches * u64::from(work.producers) {
        file.read_exact_at(&mut batch, number * step as u64)?;
        for record in batch.chunks(RECORD_BYTES).take(work.records as usize) {
            sink(record)?;
        }
    }
    Ok(())
}
