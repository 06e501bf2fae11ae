//! What a poll gets: whole batches, as slices of memory that other threads may hold.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use corelog_format::{
    BATCH_HEADER_LEN, Batch, BatchHeader, FormatError, FormatErrorKind, UnverifiedBatch,
};
use corelog_storage::{Piece, Polled};

/// Lends a shard's memory to other threads.
///
/// Buffers of a shard cannot leave its thread and are scarce; a lease is a `Bytes` that gives its
/// buffer back to the shard when the last clone of it is dropped, on any thread. Whoever implements
/// this keeps a budget and copies where it is used up.
pub trait Lend<B>: 'static {
    /// `bytes[range]`, lent or copied.
    fn lend(&self, bytes: B, range: Range<usize>) -> Bytes;
}

/// Lends nothing: copies. For simulations, and for platforms whose buffers are plain memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopyOut;

impl<B: AsRef<[u8]>> Lend<B> for CopyOut {
    fn lend(&self, bytes: B, range: Range<usize>) -> Bytes {
        Bytes::copy_from_slice(&bytes.as_ref()[range])
    }
}

/// Whole batches in offset order, as a poll found them.
///
/// The bytes are views of buffers that belong to the shard, pinned and few. Drop the records (and
/// every slice that was cloned out of them) soon, which sends the buffers home, or detach with
/// [`Records::to_owned`] to keep them. While they are out the shard can lend less and copies more;
/// nothing stops.
#[must_use = "records hold on to buffers of their shard"]
pub struct Records {
    slices: Vec<Bytes>,
    len: usize,
    messages: u32,
    first_offset: Option<u64>,
    next_offset: u64,
    end_offset: u64,
}

impl Records {
    /// Turns a partition's answer into one that may leave the thread.
    pub(crate) fn lend<B>(polled: Polled<B>, lender: &impl Lend<B>) -> Self {
        let slices: Vec<Bytes> = polled
            .pieces
            .into_iter()
            .map(|piece| match piece {
                Piece::Header(header) => Bytes::from(header as Box<[u8]>),
                Piece::View { bytes, range } => lender.lend(bytes, range),
                Piece::Copied(bytes) => bytes,
            })
            .filter(|slice| !slice.is_empty())
            .collect();
        Records {
            len: slices.iter().map(Bytes::len).sum(),
            slices,
            messages: polled.messages,
            first_offset: polled.first_offset,
            next_offset: polled.next_offset,
            end_offset: polled.end_offset,
        }
    }

    /// True where the poll found nothing; the log may have more later.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Length of all batches in bytes, headers included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Messages in the batches.
    pub fn messages(&self) -> u32 {
        self.messages
    }

    /// Offset of the first message; `None` where there is none.
    pub fn first_offset(&self) -> Option<u64> {
        self.first_offset
    }

    /// Where the next poll continues without a gap.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Where polls of the partition ended when this one was answered: `end_offset - next_offset`
    /// messages were left.
    pub fn end_offset(&self) -> u64 {
        self.end_offset
    }

    /// The bytes in order, for a vectored send: put together they are batches back to back. A batch
    /// may straddle slices.
    pub fn slices(&self) -> &[Bytes] {
        &self.slices
    }

    /// As [`Records::slices`], for sends that outlive this value.
    pub fn into_slices(self) -> Vec<Bytes> {
        self.slices
    }

    /// The batches in order. One that lies in one slice is borrowed; one that straddles slices is
    /// joined, which copies that batch and no other.
    pub fn batches(&self) -> Batches<'_> {
        Batches { slices: &self.slices, at: 0, position: 0 }
    }

    /// A copy in memory of its own, as one slice: the shard's buffers go home when `self` is
    /// dropped.
    pub fn to_owned(&self) -> Records {
        let mut all = BytesMut::with_capacity(self.len);
        self.slices.iter().for_each(|slice| all.extend_from_slice(slice));
        let slices = if all.is_empty() { Vec::new() } else { vec![all.freeze()] };
        Records { slices, ..*self }
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("messages", &self.messages)
            .field("bytes", &self.len)
            .field("slices", &self.slices.len())
            .field("first_offset", &self.first_offset)
            .field("next_offset", &self.next_offset)
            .field("end_offset", &self.end_offset)
            .finish()
    }
}

/// One batch of [`Records`].
#[derive(Debug, Clone)]
pub struct RecordBatch<'a> {
    bytes: Cow<'a, [u8]>,
    header: BatchHeader,
}

impl RecordBatch<'_> {
    /// The batch as it is stored (message-batches.md), header included.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// True where the batch straddled slices and was copied.
    pub fn is_copied(&self) -> bool {
        matches!(self.bytes, Cow::Owned(_))
    }

    /// Its header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Its frames, after a check of the layout. The engine verified the checksums before it served
    /// the batch (unless `verify_reads` is off); [`RecordBatch::verify`] does it again.
    pub fn open(&self) -> Result<Batch<'_>, FormatError> {
        UnverifiedBatch::new(&self.bytes)?.verify_layout()
    }

    /// Its frames, after a check of the layout and of all checksums.
    pub fn verify(&self) -> Result<Batch<'_>, FormatError> {
        UnverifiedBatch::new(&self.bytes)?.verify_stored()
    }
}

/// Iterator over the batches of [`Records`]. A header that cannot be read (possible only where
/// `verify_reads` is off) is an error and the last item; its position counts from the first slice.
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    /// What is left; the first slice from `at` on.
    slices: &'a [Bytes],
    at: usize,
    position: u64,
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<RecordBatch<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.slices.is_empty() {
            return None;
        }
        let batch = self.read();
        if batch.is_err() {
            self.slices = &[];
        }
        Some(batch)
    }
}

impl<'a> Batches<'a> {
    fn read(&mut self) -> Result<RecordBatch<'a>, FormatError> {
        let start = self.position;
        let inside = |error: FormatError| error.inside(start);
        let header = self.peek(BATCH_HEADER_LEN).map_err(inside)?;
        let header = BatchHeader::parse(&header).map_err(inside)?;
        // Bounded by the format's limit, and by what is there before anything is copied.
        let len = header.batch_length as usize;
        let bytes = self.peek(len).map_err(inside)?;
        self.skip(len);
        Ok(RecordBatch { bytes, header })
    }

    /// The next `len` bytes, borrowed where they lie in one slice.
    fn peek(&self, len: usize) -> Result<Cow<'a, [u8]>, FormatError> {
        let (first, rest) = self.slices.split_first().map_or((&[][..], &[][..]), |(f, r)| (f, r));
        let first = &first[self.at.min(first.len())..];
        if let Some(bytes) = first.get(..len) {
            return Ok(Cow::Borrowed(bytes));
        }
        let have = first.len() + rest.iter().map(Bytes::len).sum::<usize>();
        if have < len {
            let kind = FormatErrorKind::Truncated { needed: len as u64, have: have as u64 };
            return Err(FormatError::new(0, "batch", kind));
        }
        let mut joined = Vec::with_capacity(len);
        joined.extend_from_slice(first);
        for slice in rest {
            let part = slice.len().min(len - joined.len());
            joined.extend_from_slice(&slice[..part]);
        }
        Ok(Cow::Owned(joined))
    }

    fn skip(&mut self, len: usize) {
        self.position += len as u64;
        self.at += len;
        while let Some((first, rest)) = self.slices.split_first()
            && self.at >= first.len()
        {
            self.at -= first.len();
            self.slices = rest;
        }
    }
}

#[cfg(test)]
mod tests;
