//! Where every byte stands: the one definition of each field's offset, width and name.
//!
//! Code reads and writes through these constants, `docs/format.md` shows them, and a test renders
//! the tables from here and compares them with the document.

use crate::le;

/// One field of a fixed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// First byte, counted from the record's start.
    pub at: usize,
    /// Width in bytes.
    pub size: usize,
    /// The name the specification gives it; errors use it too.
    pub name: &'static str,
    /// How the bytes are read: `u8`, `u16`, `u32`, `u64`, `u128` (all little-endian) or `bytes`.
    pub kind: &'static str,
    /// One line for the table in `docs/format.md`.
    pub meaning: &'static str,
}

impl Field {
    const fn new(
        at: usize,
        size: usize,
        name: &'static str,
        kind: &'static str,
        meaning: &'static str,
    ) -> Self {
        Field { at, size, name, kind, meaning }
    }

    /// One past the field's last byte.
    pub const fn end(&self) -> usize {
        self.at + self.size
    }

    /// The number in a u32 field. `record` is the whole record, so that nothing can be short.
    #[inline(always)]
    pub(crate) fn u32<const N: usize>(&self, record: &[u8; N]) -> u32 {
        debug_assert!(self.kind == "u32" && self.end() <= N);
        le::get_u32(record, self.at)
    }

    /// The number in a u64 field.
    #[inline(always)]
    pub(crate) fn u64<const N: usize>(&self, record: &[u8; N]) -> u64 {
        debug_assert!(self.kind == "u64" && self.end() <= N);
        le::get_u64(record, self.at)
    }

    /// The number in a u128 field.
    #[inline(always)]
    pub(crate) fn u128<const N: usize>(&self, record: &[u8; N]) -> u128 {
        debug_assert!(self.kind == "u128" && self.end() <= N);
        le::get_u128(record, self.at)
    }

    /// Writes a u32 field.
    #[inline(always)]
    pub(crate) fn put_u32<const N: usize>(&self, record: &mut [u8; N], value: u32) {
        debug_assert!(self.kind == "u32" && self.end() <= N);
        record[self.at..self.at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Writes a u64 field.
    #[inline(always)]
    pub(crate) fn put_u64<const N: usize>(&self, record: &mut [u8; N], value: u64) {
        debug_assert!(self.kind == "u64" && self.end() <= N);
        record[self.at..self.at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Writes a u128 field.
    #[inline(always)]
    pub(crate) fn put_u128<const N: usize>(&self, record: &mut [u8; N], value: u128) {
        debug_assert!(self.kind == "u128" && self.end() <= N);
        record[self.at..self.at + 16].copy_from_slice(&value.to_le_bytes());
    }
}

/// The batch header: specification, "Batch header (256 bytes)".
pub mod batch_header {
    use super::Field;

    /// Bytes of the record.
    pub const LEN: usize = 256;
    /// The partition.
    pub const PARTITION_ID: Field =
        Field::new(0, 8, "partition_id", "u64", "stamped by the owner; producers send zero");
    /// Offset of the batch's message 0.
    pub const BASE_OFFSET: Field =
        Field::new(8, 8, "base_offset", "u64", "stamped by the owner; producers send zero");
    /// The server's time.
    pub const BASE_TIMESTAMP: Field = Field::new(
        16,
        8,
        "base_timestamp",
        "u64",
        "microseconds, stamped by the owner; producers send zero",
    );
    /// The producer's time.
    pub const ORIGIN_TIMESTAMP: Field = Field::new(
        24,
        8,
        "origin_timestamp",
        "u64",
        "microseconds, the earliest origin time among the messages",
    );
    /// Header and frames together.
    pub const BATCH_LENGTH: Field =
        Field::new(32, 8, "batch_length", "u64", "256 + the frames' bytes, at most 64 MiB");
    /// XXH3-64 over the other fields and the frames' checksums.
    pub const BATCH_CHECKSUM: Field = Field::new(
        40,
        8,
        "batch_checksum",
        "u64",
        "XXH3-64 of bytes 0..40, bytes 48..52 and each frame's first 8 bytes",
    );
    /// Number of frames.
    pub const MESSAGE_COUNT: Field =
        Field::new(48, 4, "message_count", "u32", "frames in the batch, at least 1");
    /// Zero bytes up to the end.
    pub const RESERVED: Field = Field::new(52, 204, "reserved", "bytes", "zero");
    /// The whole record in order.
    pub const FIELDS: [Field; 8] = [
        PARTITION_ID,
        BASE_OFFSET,
        BASE_TIMESTAMP,
        ORIGIN_TIMESTAMP,
        BATCH_LENGTH,
        BATCH_CHECKSUM,
        MESSAGE_COUNT,
        RESERVED,
    ];
    const _: () = super::tiles(&FIELDS, LEN);
}

/// The section that newer producers put into the batch header's reserved bytes. We refuse a batch
/// that has it; tools name its parts. Positions are those of the batch header.
pub mod producer_section {
    use super::Field;

    /// Announces the rest.
    pub const FLAG: Field =
        Field::new(52, 1, "idempotent_producer", "u8", "not zero: the section is there");
    /// The producer.
    pub const PRODUCER_ID: Field = Field::new(56, 8, "producer_id", "u64", "the producer");
    /// Its life.
    pub const EPOCH: Field = Field::new(64, 2, "producer_epoch", "u16", "its life");
    /// Where its batch begins.
    pub const BASE_SEQUENCE: Field =
        Field::new(68, 4, "base_sequence", "u32", "sequence number of the first message");
    /// These fields in order; the bytes between them are reserved.
    pub const FIELDS: [Field; 4] = [FLAG, PRODUCER_ID, EPOCH, BASE_SEQUENCE];
}

/// What stands before the data of a key or a value of user headers and options.
pub mod tagged_field {
    use super::Field;

    /// Bytes before the data.
    pub const LEN: usize = 5;
    /// What the data is.
    pub const KIND: Field = Field::new(0, 1, "kind", "u8", "what the data is; 0 is nothing");
    /// Bytes of the data.
    pub const LENGTH: Field = Field::new(1, 4, "length", "u32", "bytes of the data, 1 to 255");
    /// These fields in order.
    pub const FIELDS: [Field; 2] = [KIND, LENGTH];
    const _: () = super::tiles(&FIELDS, LEN);
}

/// The head of a message frame: specification, "Message frame header (48 bytes)".
pub mod frame_header {
    use super::Field;

    /// Bytes of the record.
    pub const LEN: usize = 48;
    /// XXH3-64 of the rest of the frame.
    pub const CHECKSUM: Field = Field::new(
        0,
        8,
        "checksum",
        "u64",
        "XXH3-64 of the frame from byte 8 to its end: header rest, payload, user headers",
    );
    /// The message's id.
    pub const ID: Field = Field::new(8, 16, "id", "u128", "chosen by the producer, 0 included");
    /// Place in the batch as it was produced.
    pub const OFFSET_DELTA: Field = Field::new(
        24,
        4,
        "offset_delta",
        "u32",
        "offset = base_offset + offset_delta; the frame's index as produced",
    );
    /// Producer's time against the batch's.
    pub const TIMESTAMP_DELTA: Field = Field::new(
        28,
        4,
        "timestamp_delta",
        "u32",
        "microseconds; producer time = origin_timestamp + timestamp_delta",
    );
    /// Bytes of the user headers block.
    pub const USER_HEADERS_LENGTH: Field = Field::new(
        32,
        4,
        "user_headers_length",
        "u32",
        "bytes of the user headers, after the payload",
    );
    /// Bytes of the payload.
    pub const PAYLOAD_LENGTH: Field =
        Field::new(36, 4, "payload_length", "u32", "bytes of the payload, after this header");
    /// Zero.
    pub const RESERVED: Field = Field::new(40, 8, "reserved", "u64", "zero");
    /// The whole record in order.
    pub const FIELDS: [Field; 7] = [
        CHECKSUM,
        ID,
        OFFSET_DELTA,
        TIMESTAMP_DELTA,
        USER_HEADERS_LENGTH,
        PAYLOAD_LENGTH,
        RESERVED,
    ];
    const _: () = super::tiles(&FIELDS, LEN);
}

/// One entry of an `.index` file.
pub mod index_entry {
    use super::Field;

    /// Bytes of the record.
    pub const LEN: usize = 24;
    /// The batch's `base_offset`.
    pub const BASE_OFFSET: Field =
        Field::new(0, 8, "base_offset", "u64", "`base_offset` of the batch at `position`");
    /// The batch's `base_timestamp`.
    pub const BASE_TIMESTAMP: Field =
        Field::new(8, 8, "base_timestamp", "u64", "`base_timestamp` of that batch");
    /// Where it begins.
    pub const POSITION: Field =
        Field::new(16, 8, "position", "u64", "byte of the `.log` file where that batch begins");
    /// The whole record in order.
    pub const FIELDS: [Field; 3] = [BASE_OFFSET, BASE_TIMESTAMP, POSITION];
    const _: () = super::tiles(&FIELDS, LEN);
}

/// A consumer's stored offset.
pub mod offset_record {
    use super::Field;

    /// Bytes of the record.
    pub const LEN: usize = 16;
    /// The stored offset.
    pub const OFFSET: Field = Field::new(0, 8, "offset", "u64", "the offset that was stored");
    /// XXH3-64 of the offset's bytes.
    pub const CHECKSUM: Field =
        Field::new(8, 8, "checksum", "u64", "XXH3-64 of bytes 0..8; absent in 8-byte files");
    /// The whole record in order.
    pub const FIELDS: [Field; 2] = [OFFSET, CHECKSUM];
    const _: () = super::tiles(&FIELDS, LEN);
}

/// What every two-slot record starts with; the same in all versions to come.
pub mod slot_header {
    use super::Field;

    /// Bytes before the record's own fields.
    pub const LEN: usize = 32;
    /// Which record this is.
    pub const MAGIC: Field = Field::new(
        0,
        8,
        "magic",
        "bytes",
        "names the record: `CLOGMANI`, `CLOGCLCK` or `CLOGOFFS`",
    );
    /// XXH3-64 over the rest of the slot.
    pub const CHECKSUM: Field =
        Field::new(8, 8, "checksum", "u64", "XXH3-64 of the slot from byte 16 on");
    /// Format version.
    pub const VERSION: Field = Field::new(16, 4, "version", "u32", "1");
    /// Zero.
    pub const RESERVED: Field = Field::new(20, 4, "reserved", "u32", "zero");
    /// Which of the two slots is newer.
    pub const SEQUENCE: Field =
        Field::new(24, 8, "sequence", "u64", "one more with every write; the higher one counts");
    /// These fields in order.
    pub const FIELDS: [Field; 5] = [MAGIC, CHECKSUM, VERSION, RESERVED, SEQUENCE];
    const _: () = super::tiles(&FIELDS, LEN);
}

/// One slot of a partition's manifest, after the slot header.
pub mod manifest {
    use super::Field;

    /// Bytes of a slot.
    pub const LEN: usize = 4096;
    /// The partition's incarnation.
    pub const INCARNATION: Field =
        Field::new(32, 8, "incarnation", "u64", "raised by create and by purge, never reused");
    /// First offset that retention kept.
    pub const FIRST_OFFSET: Field =
        Field::new(40, 8, "first_offset", "u64", "the first retained offset");
    /// Durable mark: segment.
    pub const MARK_SEGMENT: Field =
        Field::new(48, 8, "mark_segment", "u64", "durable mark: first offset of its segment");
    /// Durable mark: position.
    pub const MARK_POSITION: Field =
        Field::new(56, 8, "mark_position", "u64", "durable mark: byte position in that segment");
    /// Durable mark: next offset.
    pub const MARK_NEXT_OFFSET: Field =
        Field::new(64, 8, "mark_next_offset", "u64", "durable mark: offset of the next message");
    /// Durable mark: last timestamp.
    pub const MARK_LAST_TIMESTAMP: Field = Field::new(
        72,
        8,
        "mark_last_timestamp",
        "u64",
        "durable mark: `base_timestamp` of the last batch below it, microseconds",
    );
    /// Another server's batches end below it.
    pub const ADOPTED_END: Field = Field::new(
        80,
        8,
        "adopted_end",
        "u64",
        "batches below this offset may be another server's, and their times may go back",
    );
    /// Zero bytes up to the end.
    pub const RESERVED: Field = Field::new(88, 4008, "reserved", "bytes", "zero");
    /// The whole slot in order.
    pub const FIELDS: [Field; 13] = [
        super::slot_header::MAGIC,
        super::slot_header::CHECKSUM,
        super::slot_header::VERSION,
        super::slot_header::RESERVED,
        super::slot_header::SEQUENCE,
        INCARNATION,
        FIRST_OFFSET,
        MARK_SEGMENT,
        MARK_POSITION,
        MARK_NEXT_OFFSET,
        MARK_LAST_TIMESTAMP,
        ADOPTED_END,
        RESERVED,
    ];
    const _: () = super::tiles(&FIELDS, LEN);
}

/// One slot of the engine's clock record, after the slot header.
pub mod clock_record {
    use super::Field;

    /// Bytes of a slot.
    pub const LEN: usize = 4096;
    /// The ceiling.
    pub const CEILING_US: Field = Field::new(
        32,
        8,
        "ceiling_us",
        "u64",
        "microseconds; no batch was or will be stamped above it before it is raised",
    );
    /// Zero bytes up to the end.
    pub const RESERVED: Field = Field::new(40, 4056, "reserved", "bytes", "zero");
    /// The whole slot in order.
    pub const FIELDS: [Field; 7] = [
        super::slot_header::MAGIC,
        super::slot_header::CHECKSUM,
        super::slot_header::VERSION,
        super::slot_header::RESERVED,
        super::slot_header::SEQUENCE,
        CEILING_US,
        RESERVED,
    ];
    const _: () = super::tiles(&FIELDS, LEN);
}

/// One slot of a partition's offset table, after the slot header; its entries follow.
pub mod offset_table {
    use super::Field;

    /// Bytes before the entries.
    pub const LEN: usize = 48;
    /// The partition's incarnation.
    pub const INCARNATION: Field =
        Field::new(32, 8, "incarnation", "u64", "the life of the partition that it belongs to");
    /// How many entries follow.
    pub const ENTRIES: Field =
        Field::new(40, 4, "entries", "u32", "how many entries follow; then zeros up to the end");
    /// The slot's own length.
    pub const SLOT_BYTES: Field =
        Field::new(44, 4, "slot_bytes", "u32", "bytes of each slot: 4,096 times a power of two");
    /// The fixed part in order.
    pub const FIELDS: [Field; 8] = [
        super::slot_header::MAGIC,
        super::slot_header::CHECKSUM,
        super::slot_header::VERSION,
        super::slot_header::RESERVED,
        super::slot_header::SEQUENCE,
        INCARNATION,
        ENTRIES,
        SLOT_BYTES,
    ];
    const _: () = super::tiles(&FIELDS, LEN);
}

/// One entry of an offset table.
pub mod offset_entry {
    use super::Field;

    /// Bytes of an entry.
    pub const LEN: usize = 16;
    /// Consumer or group.
    pub const KIND: Field = Field::new(0, 4, "kind", "u32", "1 consumer, 2 consumer group");
    /// Whose.
    pub const ID: Field = Field::new(4, 4, "id", "u32", "its id; entries ascend by kind and id");
    /// The stored offset.
    pub const OFFSET: Field = Field::new(8, 8, "offset", "u64", "the offset that was stored");
    /// These fields in order.
    pub const FIELDS: [Field; 3] = [KIND, ID, OFFSET];
    const _: () = super::tiles(&FIELDS, LEN);
}

/// Fails the build when fields leave a gap, overlap, or do not end with the record.
const fn tiles(fields: &[Field], len: usize) {
    let mut at = 0;
    let mut i = 0;
    while i < fields.len() {
        assert!(fields[i].at == at, "a field does not begin where the one before it ends");
        at = fields[i].end();
        i += 1;
    }
    assert!(at == len, "the last field does not end with the record");
}
