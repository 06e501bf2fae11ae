//! The options block that ends create and update commands: user-header encoding, with keys that
//! are unique and limits on both counts (encodings.md, "Options block").

use crate::tlv::Pairs;
use crate::user_headers::{key_text, put_pair};
use crate::{FormatError, FormatErrorKind, HeaderValue};

/// The most entries of an options block.
pub const OPTIONS_ENTRIES_MAX: usize = 1024;

/// The most bytes of an options block.
pub const OPTIONS_BYTES_MAX: usize = 100_000;

/// An options block that keeps every rule, borrowed. Which keys exist is the catalog's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionsBlock<'a> {
    bytes: &'a [u8],
    entries: usize,
}

impl<'a> OptionsBlock<'a> {
    /// Decodes the whole of `bytes`, which may be empty.
    ///
    /// Allocates nothing: the keys are sorted in a fixed array (24 KiB of stack), so the search for
    /// duplicates is bounded by the two limits and by nothing that the input says.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FormatError> {
        if bytes.len() > OPTIONS_BYTES_MAX {
            return Err(too_many(0, "options length", bytes.len(), OPTIONS_BYTES_MAX));
        }
        let mut keys = [("", 0_usize); OPTIONS_ENTRIES_MAX];
        let mut entries = 0;
        for pair in Pairs::new(bytes) {
            let (key, _) = pair?;
            let Some(slot) = keys.get_mut(entries) else {
                return Err(too_many(key.at, "options entries", entries + 1, OPTIONS_ENTRIES_MAX));
            };
            *slot = (key_text(&key)?, key.data_at());
            entries += 1;
        }
        match first_repeated(&mut keys[..entries]) {
            None => Ok(OptionsBlock { bytes, entries }),
            Some(at) => Err(FormatError::new(at as u64, "key", FormatErrorKind::DuplicateKey)),
        }
    }

    /// The encoded block.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Number of entries.
    pub const fn len(&self) -> usize {
        self.entries
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, HeaderValue<'a>)> + use<'a> {
        Pairs::new(self.bytes).map(|pair| {
            let (key, value) = pair.expect("decode checked the structure of every pair");
            let key = key_text(&key).expect("decode checked that every key is a string");
            (key, HeaderValue::from_parts(value.kind, value.data))
        })
    }

    /// The value of `key`, if the block has it. Looks at the entries one after another.
    pub fn get(&self, key: &str) -> Option<HeaderValue<'a>> {
        self.iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.bytes);
    }
}

/// Where the first key stands that stood before. Sorts the keys.
fn first_repeated(keys: &mut [(&str, usize)]) -> Option<usize> {
    keys.sort_unstable();
    keys.windows(2).filter_map(|pair| (pair[0].0 == pair[1].0).then_some(pair[1].1)).min()
}

#[cold]
fn too_many(at: usize, field: &'static str, found: usize, max: usize) -> FormatError {
    let (found, max) = (found as u64, max as u64);
    FormatError::new(at as u64, field, FormatErrorKind::OutOfRange { found, min: 0, max })
}

/// Makes an options block, entry by entry.
#[derive(Debug, Default, Clone)]
pub struct OptionsBuilder {
    block: Vec<u8>,
    entries: usize,
}

impl OptionsBuilder {
    /// An empty block.
    pub const fn new() -> Self {
        OptionsBuilder { block: Vec::new(), entries: 0 }
    }

    /// Adds an entry. Refused, with the block as it was: a key that is already there, a key or data
    /// that is not 1..=255 bytes long, an unknown value under a code that has a meaning, and what
    /// would pass [`OPTIONS_ENTRIES_MAX`] or [`OPTIONS_BYTES_MAX`].
    pub fn push(&mut self, key: &str, value: HeaderValue<'_>) -> Result<(), FormatError> {
        let at = self.block.len();
        if self.entries == OPTIONS_ENTRIES_MAX {
            return Err(too_many(at, "options entries", self.entries + 1, OPTIONS_ENTRIES_MAX));
        }
        if self.block().get(key).is_some() {
            return Err(FormatError::new(at as u64, "key", FormatErrorKind::DuplicateKey));
        }
        put_pair(&mut self.block, OPTIONS_BYTES_MAX, key, &value)?;
        self.entries += 1;
        Ok(())
    }

    /// The block so far.
    pub fn block(&self) -> OptionsBlock<'_> {
        OptionsBlock { bytes: &self.block, entries: self.entries }
    }
}
