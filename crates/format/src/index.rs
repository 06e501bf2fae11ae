//! Entries of an `.index` file: where batches begin. A hint, never a truth.

use crate::layout::index_entry as at;

/// Bytes of an index entry.
pub const INDEX_ENTRY_LEN: usize = at::LEN;

/// Says that a batch begins at a place. Used only after the batch there was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The batch's `base_offset`.
    pub base_offset: u64,
    /// The batch's `base_timestamp`, in microseconds.
    pub base_timestamp: u64,
    /// First byte of the batch in the `.log` file.
    pub position: u64,
}

impl IndexEntry {
    /// The entry's bytes.
    pub fn encode(&self) -> [u8; INDEX_ENTRY_LEN] {
        let mut record = [0; INDEX_ENTRY_LEN];
        at::BASE_OFFSET.put_u64(&mut record, self.base_offset);
        at::BASE_TIMESTAMP.put_u64(&mut record, self.base_timestamp);
        at::POSITION.put_u64(&mut record, self.position);
        record
    }

    /// The entry in these bytes. There is nothing in an entry that could be refused.
    pub fn decode(record: &[u8; INDEX_ENTRY_LEN]) -> Self {
        IndexEntry {
            base_offset: at::BASE_OFFSET.u64(record),
            base_timestamp: at::BASE_TIMESTAMP.u64(record),
            position: at::POSITION.u64(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_three_little_endian_numbers() {
        let entry = IndexEntry { base_offset: 0x0102, base_timestamp: u64::MAX, position: 1 << 40 };
        let mut expected = [0; 24];
        expected[..2].copy_from_slice(&[2, 1]);
        expected[8..16].fill(0xff);
        expected[21] = 1;
        assert_eq!(entry.encode(), expected);
        assert_eq!(IndexEntry::decode(&expected), entry);
    }
}
