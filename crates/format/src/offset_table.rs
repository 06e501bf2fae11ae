//! What consumers and groups have stored in one partition: a table kept in two slots, like the
//! manifest, but of a length that its entries need.

use crate::layout::{offset_entry as entry, offset_table as at, slot_header as head};
use crate::slots::{Read, SLOT_LEN, Slot, SlotError, VERSION, newer};
use crate::{ConsumerKind, FormatError, FormatErrorKind, checksum};

const NAME: &str = "offset table";
const MAGIC: [u8; 8] = *b"CLOGOFFS";

/// The most entries of a table: slots of 16 MiB.
pub const OFFSET_ENTRIES_MAX: usize = ((16 << 20) - at::LEN) / entry::LEN;

/// The stored offsets of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetTable {
    /// Raised with every write; the slot with the higher one counts.
    pub sequence: u64,
    /// The life of the partition that they belong to.
    pub incarnation: u64,
    /// Ascending by kind (consumers first) and id, each once.
    pub entries: Vec<OffsetEntry>,
}

/// What one consumer or group has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetEntry {
    /// Whose kind.
    pub kind: ConsumerKind,
    /// Whose id.
    pub id: u32,
    /// The stored offset.
    pub offset: u64,
}

impl OffsetEntry {
    fn key(&self) -> (u8, u32) {
        (self.kind.code(), self.id)
    }
}

impl OffsetTable {
    /// Bytes of a slot that holds `entries` of them: 4,096 times a power of two.
    pub fn slot_len(entries: usize) -> usize {
        let bytes = at::LEN + entries * entry::LEN;
        bytes.next_multiple_of(SLOT_LEN).next_power_of_two()
    }

    /// Writes the table into `slot`, all of it.
    ///
    /// # Panics
    /// When the entries do not fit, or the length is none that [`OffsetTable::slot_len`] answers.
    pub fn encode(&self, slot: &mut [u8]) {
        let (len, need) = (slot.len(), Self::slot_len(self.entries.len()));
        assert!(len >= need && is_slot_len(len), "{len} bytes for {need}");
        let (fixed, entries) = slot.split_first_chunk_mut::<{ at::LEN }>().expect("4,096 or more");
        fixed.fill(0);
        fixed[head::MAGIC.at..head::MAGIC.end()].copy_from_slice(&MAGIC);
        head::VERSION.put_u32(fixed, VERSION);
        head::SEQUENCE.put_u64(fixed, self.sequence);
        at::INCARNATION.put_u64(fixed, self.incarnation);
        at::ENTRIES.put_u32(fixed, self.entries.len() as u32);
        at::SLOT_BYTES.put_u32(fixed, len as u32);
        entries.fill(0);
        let (records, _) = entries.as_chunks_mut::<{ entry::LEN }>();
        for (record, stored) in records.iter_mut().zip(&self.entries) {
            entry::KIND.put_u32(record, u32::from(stored.kind.code()));
            entry::ID.put_u32(record, stored.id);
            entry::OFFSET.put_u64(record, stored.offset);
        }
        let sum = checksum::xxh3(&slot[head::CHECKSUM.end()..]);
        let fixed = slot.first_chunk_mut::<{ at::LEN }>().expect("as above");
        head::CHECKSUM.put_u64(fixed, sum);
    }

    /// The valid table with the higher sequence in `file`, its slot and the slots' length, by the
    /// rules of [`crate::Manifest::pick`]. `None`: nothing was ever written.
    ///
    /// # Errors
    /// As there. A file that is not two slots long is damaged.
    pub fn pick(file: &[u8]) -> Result<Option<(OffsetTable, Slot, usize)>, SlotError> {
        let (a, b) = file.split_at(file.len() / 2);
        let newer = newer(NAME, |table: &OffsetTable| table.sequence, read(a)?, read(b)?)?;
        Ok(newer.map(|(table, slot)| (table, slot, a.len())))
    }
}

fn is_slot_len(len: usize) -> bool {
    len.is_multiple_of(SLOT_LEN) && len.is_power_of_two()
}

/// One slot. Only an intact slot can have an unknown version.
fn read(slot: &[u8]) -> Result<Read<OffsetTable>, SlotError> {
    if slot.iter().all(|&byte| byte == 0) {
        return Ok(Read::Absent);
    }
    let fixed = match intact(slot) {
        Ok(fixed) => fixed,
        Err(why) => return Ok(Read::Damaged(why)),
    };
    let found = head::VERSION.u32(fixed);
    if found != VERSION {
        return Err(SlotError::UnknownVersion { record: NAME, found });
    }
    Ok(match content(slot, fixed) {
        Ok(table) => Read::Valid(table),
        Err(why) => Read::Damaged(why),
    })
}

fn error(at: usize, field: &'static str, kind: FormatErrorKind) -> FormatError {
    FormatError::new(at as u64, field, kind)
}

/// Length, magic and checksum.
fn intact(slot: &[u8]) -> Result<&[u8; at::LEN], FormatError> {
    let Some(fixed) = slot.first_chunk::<{ at::LEN }>().filter(|_| is_slot_len(slot.len())) else {
        let kind = FormatErrorKind::Truncated { needed: SLOT_LEN as u64, have: slot.len() as u64 };
        return Err(error(0, "slot", kind));
    };
    if fixed[head::MAGIC.at..head::MAGIC.end()] != MAGIC {
        let (expected, found) = (u64::from_le_bytes(MAGIC), crate::le::get_u64(fixed, 0));
        let kind = FormatErrorKind::Mismatch { expected, found };
        return Err(error(head::MAGIC.at, head::MAGIC.name, kind));
    }
    let expected = checksum::xxh3(&slot[head::CHECKSUM.end()..]);
    let found = head::CHECKSUM.u64(fixed);
    if expected != found {
        let kind = FormatErrorKind::Checksum { expected, found };
        return Err(error(head::CHECKSUM.at, head::CHECKSUM.name, kind));
    }
    Ok(fixed)
}

/// The entries of an intact slot. What a sound writer does not write is damage, whatever the
/// checksum says.
fn content(slot: &[u8], fixed: &[u8; at::LEN]) -> Result<OffsetTable, FormatError> {
    let not_zero = |at: usize, name, found| error(at, name, FormatErrorKind::NotZero { found });
    let reserved = head::RESERVED.u32(fixed);
    if reserved != 0 {
        return Err(not_zero(head::RESERVED.at, head::RESERVED.name, reserved as u8));
    }
    let slot_bytes = u64::from(at::SLOT_BYTES.u32(fixed));
    if slot_bytes != slot.len() as u64 {
        let kind = FormatErrorKind::Mismatch { expected: slot.len() as u64, found: slot_bytes };
        return Err(error(at::SLOT_BYTES.at, at::SLOT_BYTES.name, kind));
    }
    let (records, _) = slot[at::LEN..].as_chunks::<{ entry::LEN }>();
    let count = at::ENTRIES.u32(fixed) as usize;
    let Some((used, free)) = records.split_at_checked(count) else {
        let max = records.len() as u64;
        let kind = FormatErrorKind::OutOfRange { found: count as u64, min: 0, max };
        return Err(error(at::ENTRIES.at, at::ENTRIES.name, kind));
    };
    let position = |number: usize| at::LEN + number * entry::LEN;
    let mut entries: Vec<OffsetEntry> = Vec::with_capacity(count);
    for (number, record) in used.iter().enumerate() {
        let code = entry::KIND.u32(record);
        let kind = match code {
            1 => ConsumerKind::Consumer,
            2 => ConsumerKind::ConsumerGroup,
            found => {
                let kind = FormatErrorKind::UnknownCode { found: u64::from(found) };
                return Err(error(position(number), entry::KIND.name, kind));
            }
        };
        let stored =
            OffsetEntry { kind, id: entry::ID.u32(record), offset: entry::OFFSET.u64(record) };
        if entries.last().is_some_and(|last| last.key() >= stored.key()) {
            let kind = FormatErrorKind::DuplicateKey;
            return Err(error(position(number), entry::ID.name, kind));
        }
        entries.push(stored);
    }
    if let Some(number) = free.iter().position(|record| *record != [0; entry::LEN]) {
        return Err(not_zero(position(count + number), "entry", 1));
    }
    let (sequence, incarnation) = (head::SEQUENCE.u64(fixed), at::INCARNATION.u64(fixed));
    Ok(OffsetTable { sequence, incarnation, entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(sequence: u64, count: u32) -> OffsetTable {
        let consumer = |id: u32| OffsetEntry {
            kind: ConsumerKind::Consumer,
            id: id * 3,
            offset: u64::from(id) << 33,
        };
        let mut entries: Vec<_> = (0..count).map(consumer).collect();
        let group = OffsetEntry { kind: ConsumerKind::ConsumerGroup, id: 0, offset: 7 };
        entries.push(group);
        OffsetTable { sequence, incarnation: 9, entries }
    }

    fn slot(table: &OffsetTable, len: usize) -> Vec<u8> {
        let mut slot = vec![0xAA; len];
        table.encode(&mut slot);
        slot
    }

    #[test]
    fn slots_are_as_long_as_their_entries_need() {
        for (entries, len) in [(0, 4096), (253, 4096), (254, 8192), (509, 8192), (510, 16384)] {
            assert_eq!(OffsetTable::slot_len(entries), len, "{entries}");
        }
        assert_eq!(OffsetTable::slot_len(OFFSET_ENTRIES_MAX), 16 << 20);
    }

    #[test]
    fn the_newer_valid_slot_counts() {
        let (old, new) = (table(4, 3), table(5, 250));
        for (a, b, picked) in [(&old, &new, Slot::B), (&new, &old, Slot::A)] {
            let file = [slot(a, 4096), slot(b, 4096)].concat();
            let found = OffsetTable::pick(&file).unwrap();
            assert_eq!(found, Some((new.clone(), picked, 4096)));
        }
        let one = [slot(&new, 8192), vec![0; 8192]].concat();
        assert_eq!(OffsetTable::pick(&one).unwrap(), Some((new.clone(), Slot::A, 8192)));
        assert_eq!(OffsetTable::pick(&[0; 8192]).unwrap(), None);
        assert_eq!(OffsetTable::pick(&[]).unwrap(), None);
    }

    #[test]
    fn a_torn_slot_leaves_the_other() {
        let (old, new) = (slot(&table(4, 200), 4096), slot(&table(5, 201), 4096));
        for cut in (0..4096).step_by(512).skip(1) {
            let torn = [&new[..cut], &old[cut..]].concat();
            let found = OffsetTable::pick(&[&old[..], &torn[..]].concat()).unwrap().unwrap();
            // A cut behind the last change leaves the new slot whole.
            assert!(found.0.sequence == 4 || torn == new, "cut at {cut}");
            assert!(OffsetTable::pick(&[&torn[..], &[0; 4096]].concat()).is_err() || torn == new);
        }
    }

    /// Bits of everything that is not behind the entries, turned over one by one.
    #[test]
    fn every_flipped_bit_is_found() {
        let good = slot(&table(1, 5), 4096);
        for bit in 0..8 * (at::LEN + 7 * entry::LEN) {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let file = [bad, vec![0; 4096]].concat();
            let error = OffsetTable::pick(&file).unwrap_err();
            assert!(matches!(error, SlotError::BothDamaged { .. }), "bit {bit}: {error}");
        }
    }

    /// Damage that a checksum was made for is refused by what it says.
    #[test]
    fn what_no_writer_writes_is_damage() {
        let changes: [(usize, u8); 6] = [
            (head::RESERVED.at, 1),
            (at::ENTRIES.at + 3, 1),
            (at::SLOT_BYTES.at, 1),
            (at::LEN + entry::KIND.at, 3),
            (at::LEN + entry::LEN + entry::ID.at, 0),
            (4095, 1),
        ];
        for (place, value) in changes {
            let mut bad = slot(&table(1, 5), 4096);
            bad[place] = value;
            let sum = checksum::xxh3(&bad[head::CHECKSUM.end()..]);
            bad[8..16].copy_from_slice(&sum.to_le_bytes());
            let error = OffsetTable::pick(&[bad, vec![0; 4096]].concat()).unwrap_err();
            assert!(matches!(error, SlotError::BothDamaged { .. }), "byte {place}: {error}");
        }
        let mut newer = slot(&table(1, 5), 4096);
        newer[head::VERSION.at] = 2;
        let sum = checksum::xxh3(&newer[head::CHECKSUM.end()..]);
        newer[8..16].copy_from_slice(&sum.to_le_bytes());
        let error = OffsetTable::pick(&[newer, vec![0; 4096]].concat()).unwrap_err();
        assert!(matches!(error, SlotError::UnknownVersion { found: 2, .. }), "{error}");
        for len in [1, 4095, 4096, 8191, 12288] {
            assert!(OffsetTable::pick(&vec![1; len]).is_err(), "{len} bytes");
        }
    }
}
