//! The newest part of a log in memory: dispatched buffers that readers may still use, and where
//! each batch in them begins. Positions are bytes in the active segment's file.

use std::collections::VecDeque;

use corelog_io::SharedBytes;

/// Where one appended batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchPlace {
    pub(crate) base_offset: u64,
    pub(crate) base_timestamp: u64,
    pub(crate) message_count: u32,
    pub(crate) position: u64,
    pub(crate) len: u64,
}

impl BatchPlace {
    pub(crate) fn end_offset(&self) -> u64 {
        self.base_offset + u64::from(self.message_count)
    }

    pub(crate) fn end(&self) -> u64 {
        self.position + self.len
    }
}

/// A dispatched buffer: `bytes` begin at file position `start`; `from..end` is what it added.
#[derive(Clone)]
pub(crate) struct Chunk<S> {
    pub(crate) bytes: S,
    pub(crate) start: u64,
    pub(crate) from: u64,
    pub(crate) end: u64,
    /// Memory that keeping the chunk costs, bytes.
    pub(crate) held: usize,
}

/// Chunks without a gap up to the tail's first unsent byte, and the batches that begin in them or
/// behind them.
pub(crate) struct Memory<S> {
    chunks: VecDeque<Chunk<S>>,
    /// Number of the first chunk; numbers count up for ever.
    first: u64,
    batches: VecDeque<BatchPlace>,
    /// First position that is in memory: the first chunk's `from`, or the tail's unsent bytes.
    from: u64,
}

impl<S: SharedBytes> Memory<S> {
    /// An empty memory for a segment whose logical end is `end`.
    pub(crate) fn new(end: u64) -> Self {
        Memory { chunks: VecDeque::new(), first: 0, batches: VecDeque::new(), from: end }
    }

    /// Forgets everything: a new segment begins, empty.
    pub(crate) fn start_segment(&mut self) {
        self.first += self.chunks.len() as u64;
        self.chunks.clear();
        self.batches.clear();
        self.from = 0;
    }

    /// Remembers an appended batch, unless its first chunk was evicted while the rest of it was
    /// still being copied.
    pub(crate) fn push_batch(&mut self, place: BatchPlace) {
        if place.position >= self.from {
            self.batches.push_back(place);
        }
    }

    /// Keeps a dispatched buffer and gives its number.
    pub(crate) fn push_chunk(&mut self, chunk: Chunk<S>) -> u64 {
        if let Some(last) = self.chunks.back() {
            assert_eq!(last.end, chunk.from, "chunks must be contiguous");
        }
        self.chunks.push_back(chunk);
        self.first + self.chunks.len() as u64 - 1
    }

    /// Chunk `number`; `None` where it was evicted or is not there yet.
    pub(crate) fn chunk(&self, number: u64) -> Option<&Chunk<S>> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.chunks.get(place)
    }

    /// Number of the oldest chunk that is kept, or of the next one.
    pub(crate) fn first_chunk(&self) -> u64 {
        self.first
    }

    /// True where every batch from `offset` on is whole in memory.
    pub(crate) fn reaches_down_to(&self, offset: u64) -> bool {
        self.batches.front().is_some_and(|batch| batch.base_offset <= offset)
    }

    /// Drops chunk `number` and all before it. Readers that hold their bytes keep them.
    pub(crate) fn evict(&mut self, number: u64) {
        while self.first <= number
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.first += 1;
            self.from = chunk.end;
        }
        while self.batches.front().is_some_and(|batch| batch.position < self.from) {
            self.batches.pop_front();
        }
    }

    /// Drops the batches that begin at or above `position`, the end of one, and the chunks that
    /// hold nothing else.
    pub(crate) fn cut(&mut self, position: u64) {
        while self.batches.back().is_some_and(|batch| batch.position >= position) {
            self.batches.pop_back();
        }
        while self.chunks.back().is_some_and(|chunk| chunk.from >= position) {
            self.chunks.pop_back();
        }
    }

    /// The batches that are whole in memory, oldest first.
    pub(crate) fn batches(&self) -> &VecDeque<BatchPlace> {
        &self.batches
    }

    /// Index of the batch that holds `offset`, where it is in memory.
    pub(crate) fn find_offset(&self, offset: u64) -> Option<usize> {
        let first = self.batches.front()?;
        if offset < first.base_offset {
            return None;
        }
        let index = self.batches.partition_point(|batch| batch.end_offset() <= offset);
        (index < self.batches.len()).then_some(index)
    }

    /// Index of the first batch at or after `timestamp`, where it is certain that no batch outside
    /// of memory qualifies.
    pub(crate) fn find_time(&self, timestamp: u64) -> Option<usize> {
        let first = self.batches.front()?;
        if first.base_timestamp >= timestamp {
            return None;
        }
        let index = self.batches.partition_point(|batch| batch.base_timestamp < timestamp);
        (index < self.batches.len()).then_some(index)
    }

    /// Calls `piece` with the parts of `from..to` that are in chunks, in order, as (bytes, range in
    /// them), and gives the position from which on the tail's unsent bytes must serve.
    pub(crate) fn cover(
        &self,
        from: u64,
        to: u64,
        mut piece: impl FnMut(&S, std::ops::Range<usize>),
    ) -> u64 {
        let mut at = from;
        let mut index = self.chunks.partition_point(|chunk| chunk.end <= at);
        while at < to
            && let Some(chunk) = self.chunks.get(index)
        {
            let end = chunk.end.min(to);
            piece(&chunk.bytes, (at - chunk.start) as usize..(end - chunk.start) as usize);
            at = end;
            index += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    fn chunk(start: u64, from: u64, end: u64) -> Chunk<Rc<[u8]>> {
        let bytes: Rc<[u8]> = (start..end).map(|i| i as u8).collect();
        Chunk { bytes, start, from, end, held: 4096 }
    }

    fn place(base_offset: u64, position: u64, len: u64) -> BatchPlace {
        let base_timestamp = 100 + base_offset;
        BatchPlace { base_offset, base_timestamp, message_count: 2, position, len }
    }

    fn memory() -> Memory<Rc<[u8]>> {
        let mut memory = Memory::new(10);
        for (n, position) in [(0, 10), (2, 30), (4, 50), (6, 70)] {
            memory.push_batch(place(n, position, 20));
        }
        assert_eq!(memory.push_chunk(chunk(0, 10, 40)), 0);
        assert_eq!(memory.push_chunk(chunk(32, 40, 75)), 1);
        memory
    }

    #[test]
    fn a_range_is_covered_by_chunks_and_then_the_tail() {
        let memory = memory();
        let mut got = Vec::new();
        let rest = memory.cover(30, 90, |bytes, range| got.extend_from_slice(&bytes[range]));
        assert_eq!(rest, 75);
        assert_eq!(got, (30..75).map(|i| i as u8).collect::<Vec<_>>());
        assert_eq!(memory.cover(80, 90, |_, _| panic!("only in the tail")), 80);
    }

    #[test]
    fn eviction_drops_the_batches_that_began_there() {
        let mut memory = memory();
        memory.evict(0);
        assert_eq!(memory.batches().front().map(|b| b.base_offset), Some(4), "30..50 straddled");
        assert_eq!(memory.find_offset(3), None);
        assert_eq!(memory.find_offset(5), Some(0));
        assert_eq!(memory.find_offset(8), None);
        memory.evict(7);
        assert!(memory.batches().is_empty(), "70..90 straddles the chunk and the tail");
        memory.push_batch(place(8, 90, 5));
        assert_eq!(memory.find_offset(9), Some(0));
    }

    #[test]
    fn time_is_found_only_where_nothing_older_can_match() {
        let memory = memory();
        assert_eq!(memory.find_time(100), None, "an evicted batch might match too");
        assert_eq!(memory.find_time(101), Some(1));
        assert_eq!(memory.find_time(107), None);
    }
}
