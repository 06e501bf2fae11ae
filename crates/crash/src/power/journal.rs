//! What a device was asked and what it answered, in order: enough to say of any moment what a power
//! cut there may leave.

use bytes::Bytes;

/// One thing that happened at the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A write was asked for: `bytes` at position `at`.
    Write {
        /// Byte on the device.
        at: u64,
        /// What was written.
        bytes: Bytes,
    },
    /// The write that is entry `write` was answered. A flush covers it only from here on.
    Answered {
        /// Number of the entry of the write.
        write: usize,
    },
    /// A flush was asked for, done and answered.
    Flush,
}

/// The life of a device, from the moment it was attached.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    entries: Vec<Entry>,
    bytes: u64,
}

impl Journal {
    /// Adds an entry and returns its number.
    pub fn push(&mut self, entry: Entry) -> usize {
        if let Entry::Write { bytes, .. } = &entry {
            self.bytes += bytes.len() as u64;
        }
        self.entries.push(entry);
        self.entries.len() - 1
    }

    /// All entries. A place in the journal is the number of entries before it.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Bytes of all writes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The writes that were asked for before place `place`, as they stood there.
    pub fn writes_before(&self, place: usize) -> Vec<Write<'_>> {
        let mut writes: Vec<Write<'_>> = Vec::new();
        let mut number_of = vec![usize::MAX; place];
        for (number, entry) in self.entries[..place].iter().enumerate() {
            match entry {
                Entry::Write { at, bytes } => {
                    number_of[number] = writes.len();
                    writes.push(Write { at: *at, bytes, asked: number, answered: None });
                }
                Entry::Answered { write } => writes[number_of[*write]].answered = Some(number),
                Entry::Flush => {}
            }
        }
        writes
    }

    /// The last flush before `place`, or the one `lies` before that.
    pub fn flushed_before(&self, place: usize, lies: usize) -> Option<usize> {
        self.flushes_before(place).rev().nth(lies)
    }

    /// How many writes before `place` are loose: no flush covers them.
    pub fn loose_before(&self, place: usize, lies: usize) -> usize {
        let flushed = self.flushed_before(place, lies);
        self.writes_before(place).iter().filter(|write| !write.is_safe(flushed)).count()
    }

    /// Numbers of the flushes before `place`.
    pub fn flushes_before(&self, place: usize) -> impl DoubleEndedIterator<Item = usize> {
        let entries = self.entries[..place].iter().enumerate();
        entries.filter(|(_, entry)| matches!(entry, Entry::Flush)).map(|(number, _)| number)
    }
}

/// A write, and the entries between which the device carried it out.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Byte on the device.
    pub at: u64,
    /// What was written.
    pub bytes: &'a Bytes,
    /// Number of its entry.
    pub asked: usize,
    /// Number of the entry that answers it; `None`: it was in flight.
    pub answered: Option<usize>,
}

impl Write<'_> {
    /// Whether the flush that is entry `flushed`, or one before it, covers this write.
    pub fn is_safe(&self, flushed: Option<usize>) -> bool {
        self.answered.is_some() && self.answered < flushed
    }
}
