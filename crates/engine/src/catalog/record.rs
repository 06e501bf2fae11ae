//! The catalog's records as bytes: fixed places, little-endian, each with a version of its own.
//!
//! `docs/format.md`, "The catalog", has the tables; a test compares it with the places here.

use std::time::Duration;

use corelog_storage::LogConfig;

use super::CatalogError;
use crate::topic::{PARTITIONS_MAX, TopicConfig};

/// The version that this build writes and the only one it reads.
pub(super) const VERSION: u16 = 1;

/// A record's field: its first byte and its length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    at: usize,
    len: usize,
}

const fn field(at: usize, len: usize) -> Field {
    Field { at, len }
}

/// The fields of a stream's record.
mod stream {
    use super::{Field, field};
    pub(super) const VERSION: Field = field(0, 2);
    pub(super) const RESERVED: Field = field(2, 6);
    pub(super) const CREATED_US: Field = field(8, 8);
    pub(super) const LEN: usize = 16;
}

/// The fields of a topic's record.
mod topic {
    use super::{Field, field};
    pub(super) const VERSION: Field = field(0, 2);
    pub(super) const FLAGS: Field = field(2, 2);
    pub(super) const PARTITIONS: Field = field(4, 4);
    pub(super) const CREATED_US: Field = field(8, 8);
    pub(super) const SEGMENT_BYTES: Field = field(16, 8);
    pub(super) const MESSAGES: Field = field(24, 4);
    pub(super) const RESERVED: Field = field(28, 4);
    pub(super) const BYTES: Field = field(32, 8);
    pub(super) const FLUSH_AFTER_US: Field = field(40, 8);
    pub(super) const INDEX_STEP: Field = field(48, 8);
    pub(super) const LEN: usize = 56;
}

/// The fields of a partition's record.
mod partition {
    use super::{Field, field};
    pub(super) const VERSION: Field = field(0, 2);
    pub(super) const RESERVED: Field = field(2, 6);
    pub(super) const INCARNATION: Field = field(8, 8);
    pub(super) const LEN: usize = 16;
}

const ENFORCE_FSYNC: u64 = 1;
const PREALLOCATE: u64 = 2;
const VERIFY_READS: u64 = 4;

/// What the catalog keeps of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamRecord {
    pub(super) created_us: u64,
}

/// What the catalog keeps of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicRecord {
    pub(super) created_us: u64,
    pub(super) config: TopicConfig,
}

/// What the catalog keeps of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartitionRecord {
    pub(super) incarnation: u64,
}

impl Field {
    fn get(self, bytes: &[u8]) -> u64 {
        let mut wide = [0; 8];
        wide[..self.len].copy_from_slice(&bytes[self.at..self.at + self.len]);
        u64::from_le_bytes(wide)
    }

    fn put(self, bytes: &mut [u8], value: u64) {
        let wide = value.to_le_bytes();
        debug_assert!(wide[self.len..].iter().all(|byte| *byte == 0), "{value} in {self:?}");
        bytes[self.at..self.at + self.len].copy_from_slice(&wide[..self.len]);
    }
}

/// The length and the version of a record, then its zeros.
fn check<const LEN: usize>(
    record: &'static str,
    bytes: &[u8],
    version: Field,
    reserved: Field,
) -> Result<(), CatalogError> {
    let found =
        bytes.get(version.at..version.at + version.len).map(|b| u16::from_le_bytes([b[0], b[1]]));
    match found {
        Some(VERSION) => {}
        Some(found) if found > VERSION => {
            return Err(CatalogError::Newer {
                what: record,
                found: u32::from(found),
                known: u32::from(VERSION),
            });
        }
        _ => return Err(CatalogError::damaged(format!("a {record} record has no version"))),
    }
    if bytes.len() != LEN {
        let len = bytes.len();
        return Err(CatalogError::damaged(format!("a {record} record is {len} bytes, not {LEN}")));
    }
    if reserved.get(bytes) != 0 {
        return Err(CatalogError::damaged(format!("a {record} record's reserved bytes are not 0")));
    }
    Ok(())
}

impl StreamRecord {
    pub(super) fn encode(self) -> [u8; stream::LEN] {
        let mut bytes = [0; stream::LEN];
        stream::VERSION.put(&mut bytes, u64::from(VERSION));
        stream::CREATED_US.put(&mut bytes, self.created_us);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        check::<{ stream::LEN }>("stream", bytes, stream::VERSION, stream::RESERVED)?;
        Ok(StreamRecord { created_us: stream::CREATED_US.get(bytes) })
    }
}

impl TopicRecord {
    pub(super) fn encode(&self) -> [u8; topic::LEN] {
        let log = self.config.log();
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        let flags = flag(log.enforce_fsync, ENFORCE_FSYNC)
            | flag(log.preallocate_segments, PREALLOCATE)
            | flag(log.verify_reads, VERIFY_READS);
        let mut bytes = [0; topic::LEN];
        topic::VERSION.put(&mut bytes, u64::from(VERSION));
        topic::FLAGS.put(&mut bytes, flags);
        topic::PARTITIONS.put(&mut bytes, u64::from(self.config.partitions));
        topic::CREATED_US.put(&mut bytes, self.created_us);
        topic::SEGMENT_BYTES.put(&mut bytes, log.segment_bytes);
        topic::MESSAGES.put(&mut bytes, u64::from(log.messages_required_to_save));
        topic::BYTES.put(&mut bytes, log.size_of_messages_required_to_save);
        // At most a minute: validated before it came here.
        topic::FLUSH_AFTER_US.put(&mut bytes, log.flush_after.as_micros() as u64);
        topic::INDEX_STEP.put(&mut bytes, log.index_step);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        check::<{ topic::LEN }>("topic", bytes, topic::VERSION, topic::RESERVED)?;
        let flags = topic::FLAGS.get(bytes);
        if flags & !(ENFORCE_FSYNC | PREALLOCATE | VERIFY_READS) != 0 {
            return Err(CatalogError::damaged(format!("a topic record has the flags {flags:#x}")));
        }
        let log = LogConfig {
            segment_bytes: topic::SEGMENT_BYTES.get(bytes),
            enforce_fsync: flags & ENFORCE_FSYNC != 0,
            messages_required_to_save: topic::MESSAGES.get(bytes) as u32,
            size_of_messages_required_to_save: topic::BYTES.get(bytes),
            preallocate_segments: flags & PREALLOCATE != 0,
            flush_after: Duration::from_micros(topic::FLUSH_AFTER_US.get(bytes)),
            index_step: topic::INDEX_STEP.get(bytes),
            verify_reads: flags & VERIFY_READS != 0,
        };
        log.validate()
            .map_err(|error| CatalogError::damaged(format!("a topic record: {error}")))?;
        let partitions = topic::PARTITIONS.get(bytes) as u32;
        if !(1..=PARTITIONS_MAX).contains(&partitions) {
            let why = format!("a topic record has {partitions} partitions");
            return Err(CatalogError::damaged(why));
        }
        let config = TopicConfig::new(partitions, &log);
        Ok(TopicRecord { created_us: topic::CREATED_US.get(bytes), config })
    }
}

impl PartitionRecord {
    pub(super) fn encode(self) -> [u8; partition::LEN] {
        let mut bytes = [0; partition::LEN];
        partition::VERSION.put(&mut bytes, u64::from(VERSION));
        partition::INCARNATION.put(&mut bytes, self.incarnation);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        check::<{ partition::LEN }>("partition", bytes, partition::VERSION, partition::RESERVED)?;
        Ok(PartitionRecord { incarnation: partition::INCARNATION.get(bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic_record() -> TopicRecord {
        let config = TopicConfig {
            partitions: 0x000A_0304,
            segment_bytes: 1 << 20,
            enforce_fsync: true,
            messages_required_to_save: 5,
            size_of_messages_required_to_save: 6,
            preallocate_segments: false,
            flush_after: Duration::from_micros(7),
            index_step: 8192,
            verify_reads: true,
        };
        TopicRecord { created_us: 9, config }
    }

    /// The rows of a table in docs/format.md: places from here, words from there.
    fn documented(record: &str, fields: &[(Field, &str)]) {
        let document = include_str!("../../../../docs/format.md");
        let marker = format!("<!-- catalog: {record} -->\n");
        let (_, section) = document.split_once(&marker).expect("the table is in the document");
        let rows: Vec<_> = section.lines().skip(2).take_while(|row| row.starts_with('|')).collect();
        let mut end = 0;
        for (row, (field, name)) in rows.iter().zip(fields) {
            let Field { at, len } = *field;
            let start = format!("| {at} | {len} | {name} | ");
            assert!(row.starts_with(&start), "{record}: {row} should begin {start}");
            assert_eq!(at, end, "{record}: a gap before {name}");
            end = at + len;
        }
        assert_eq!(rows.len(), fields.len(), "{record}");
    }

    #[test]
    fn the_document_has_the_same_places() {
        documented(
            "stream",
            &[
                (stream::VERSION, "version"),
                (stream::RESERVED, "reserved"),
                (stream::CREATED_US, "created_us"),
            ],
        );
        documented(
            "topic",
            &[
                (topic::VERSION, "version"),
                (topic::FLAGS, "flags"),
                (topic::PARTITIONS, "partitions"),
                (topic::CREATED_US, "created_us"),
                (topic::SEGMENT_BYTES, "segment_bytes"),
                (topic::MESSAGES, "messages_required_to_save"),
                (topic::RESERVED, "reserved"),
                (topic::BYTES, "size_of_messages_required_to_save"),
                (topic::FLUSH_AFTER_US, "flush_after_us"),
                (topic::INDEX_STEP, "index_step"),
            ],
        );
        documented(
            "partition",
            &[
                (partition::VERSION, "version"),
                (partition::RESERVED, "reserved"),
                (partition::INCARNATION, "incarnation"),
            ],
        );
    }

    /// The bytes of version 1, written down by hand: what is on disks must stay readable.
    #[test]
    fn version_one_is_these_bytes() {
        let mut topic = vec![1, 0, 5, 0, 4, 3, 10, 0];
        for number in [9_u64, 1 << 20, 5, 6, 7, 8192] {
            topic.extend(number.to_le_bytes());
        }
        assert_eq!(topic_record().encode().as_slice(), topic);
        assert_eq!(TopicRecord::decode(&topic).unwrap(), topic_record());
        let partition = [1, 0, 0, 0, 0, 0, 0, 0, 0xEF, 0xBE, 0, 0, 0, 0, 0, 0];
        assert_eq!(PartitionRecord { incarnation: 0xBEEF }.encode(), partition);
        assert_eq!(PartitionRecord::decode(&partition).unwrap().incarnation, 0xBEEF);
        let stream = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(StreamRecord { created_us: 2 }.encode(), stream);
        assert_eq!(StreamRecord::decode(&stream).unwrap().created_us, 2);
    }

    #[test]
    fn every_wrong_record_is_refused() {
        let good = topic_record().encode();
        for len in 0..good.len() {
            assert!(TopicRecord::decode(&good[..len]).is_err(), "{len} bytes");
        }
        assert!(TopicRecord::decode(&[&good[..], &[0]].concat()).is_err(), "a byte too many");
        for (at, value) in [(0, 0), (2, 8), (28, 1), (24, 0), (16, 1), (40, 0), (4, 0), (7, 1)] {
            let mut bytes = good;
            bytes[at] = value;
            if value == 0 && at > 0 {
                bytes[at..at + 4].fill(0);
            }
            let error = TopicRecord::decode(&bytes).unwrap_err();
            assert!(matches!(error, CatalogError::Damaged { .. }), "{at}: {error}");
        }
        let mut newer = good;
        newer[0] = 2;
        let error = TopicRecord::decode(&newer).unwrap_err();
        assert!(matches!(error, CatalogError::Newer { found: 2, .. }), "{error}");
        assert!(PartitionRecord::decode(&[0; 16]).is_err());
        assert!(StreamRecord::decode(&[]).is_err());
    }
}
