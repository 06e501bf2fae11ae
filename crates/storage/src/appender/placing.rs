//! Stamping and copying: a batch gets its offset and time, and its bytes go into the tail.

use corelog_format::{BATCH_HEADER_LEN, IndexEntry, Mark};
use corelog_io::{BLOCK, Disk};

use super::{Action, Appender, Current, Lent, Step};
use crate::memory::BatchPlace;
use crate::waiting::{Pending, Waiter};
use crate::{AppendError, Appended};

impl<D: Disk, A> Appender<D, A> {
    /// Stamps the batch at the front of the queue, if there is room, space and time for it.
    pub(super) fn place(&mut self, lent: &Lent<'_, D>, len: u64, count: u32) -> Step<D::Bytes> {
        let end = self.tail.end();
        if end >= self.config.segment_bytes {
            self.rolling = true;
            return Step::Moved;
        }
        if let Some(to) = self.space.needed(end + len) {
            if self.busy.allocating {
                return Step::Blocked;
            }
            self.busy.allocating = true;
            return Step::Do(Action::Allocate(to));
        }
        let base_offset = self.appended.next_offset;
        let Some(next_offset) = base_offset.checked_add(u64::from(count)) else {
            self.refuse_front(AppendError::OffsetsExhausted { next_offset: base_offset });
            return Step::Moved;
        };
        let base_timestamp = lent.now_us.max(self.appended.last_timestamp.saturating_add(1));
        if base_timestamp > lent.ceiling_us {
            return self.retry_later();
        }
        let Some(Pending::Append { batch, ack, answer }) = self.pending.pop_front() else {
            panic!("the front of the queue was an append");
        };
        self.pending_bytes -= batch.len();
        let (header, bytes) = batch.stamp(self.partition_id, base_offset, base_timestamp);
        let place =
            BatchPlace { base_offset, base_timestamp, message_count: count, position: end, len };
        debug_assert_eq!(place.end_offset(), next_offset);
        self.current = Some(Current { header, bytes, copied: 0, place, ack, answer });
        Step::Moved
    }

    pub(super) fn copy(&mut self, lent: &Lent<'_, D>) -> Step<D::Bytes> {
        if self.tail.is_full() {
            self.next_capacity = self.tail.capacity() * 2;
            self.cut(lent.memory);
            return Step::Moved;
        }
        let Some(current) = &self.current else { return Step::Blocked };
        let left = current.bytes.len() - current.copied;
        if self.tail.room() == 0 && self.writes.is_backed_up() {
            return Step::Blocked;
        }
        if self.tail.room() == 0 && !self.open_window(lent, left) {
            return self.retry_later();
        }
        let Some(current) = &mut self.current else { return Step::Blocked };
        let (header, bytes) = (&current.header[..], &current.bytes[..]);
        if current.copied < BATCH_HEADER_LEN {
            current.copied += self.tail.copy(&header[current.copied..]);
        }
        if current.copied >= BATCH_HEADER_LEN {
            current.copied += self.tail.copy(&bytes[current.copied..]);
        }
        if current.copied == bytes.len() {
            self.finish(lent);
        }
        Step::Moved
    }

    /// Opens a window for `left` bytes and what waits behind them. False where no buffer is free.
    fn open_window(&mut self, lent: &Lent<'_, D>, left: usize) -> bool {
        let wanted = self.tail.carry_len() + left + self.pending_bytes;
        let largest = self.window_bytes_max;
        let wanted = wanted.max(self.next_capacity).clamp(BLOCK, largest);
        let mut capacity = wanted.next_power_of_two().min(largest);
        loop {
            match (lent.alloc)(capacity) {
                Some(buf) => {
                    self.tail.open(buf);
                    return true;
                }
                // Scarce memory: a smaller window still makes progress.
                None if capacity > BLOCK => capacity /= 2,
                // A batch longer than the pool: the parts of it that are written make room.
                None if self.give_up_written(lent) => {}
                None => return false,
            }
        }
    }

    /// Drops this partition's written chunks, also those that the batch under way begins in. True
    /// where there were any. Not before everything appended is written: a poll may have served a
    /// batch whose head is in such a chunk and whose end is in flight.
    fn give_up_written(&self, lent: &Lent<'_, D>) -> bool {
        if self.written.position < self.appended.position {
            return false;
        }
        let mut memory = lent.memory.borrow_mut();
        let first = memory.first_chunk();
        let Some(last_written) = self.first_unwritten().checked_sub(1) else { return false };
        memory.evict(last_written);
        memory.first_chunk() > first
    }

    /// The batch is whole in memory: readers may see it.
    fn finish(&mut self, lent: &Lent<'_, D>) {
        let Some(current) = self.current.take() else { return };
        let place = current.place;
        assert_eq!(place.end(), self.tail.end(), "a batch ends where it was planned to end");
        self.appended = Mark {
            segment: self.appended.segment,
            position: place.end(),
            next_offset: place.end_offset(),
            last_timestamp: place.base_timestamp,
        };
        self.watermarks.set_appended(self.appended.next_offset);
        self.unsent_messages += u64::from(place.message_count);
        self.tally.add(|c| &c.batches, 1);
        self.tally.add(|c| &c.messages, place.message_count.into());
        self.tally.add(|c| &c.bytes, place.len);
        self.ends.push_back(self.appended);
        lent.memory.borrow_mut().push_batch(place);
        let BatchPlace { base_offset, base_timestamp, position, .. } = place;
        let entry = IndexEntry { base_offset, base_timestamp, position };
        lent.index.borrow_mut().note(entry, self.config.index_step);
        let appended = Appended { base_offset, base_timestamp, message_count: place.message_count };
        self.wait(self.raise(current.ack), Waiter::Append(current.answer, appended));
    }
}
