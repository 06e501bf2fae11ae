//! A topic's options: the values in force, and which of them somebody asked for (encodings.md,
//! "Options block").
//!
//! A creation resolves what is absent to the defaults, and all of it is stored; an update is a
//! patch of what it names. The values in force are a [`TopicConfig`]; beside them stands what was
//! asked for, as it is told back.

use std::collections::BTreeMap;
use std::time::Duration;

use corelog_format::{HeaderValue, OptionsBlock, OptionsBuilder};

use super::error::OptionError;
use super::option::{NO_LIMIT, TopicOption};
use super::value::Meaning;
use super::{PREALLOCATED_BYTES_MAX, TopicConfig};

/// The options of a topic, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicOptions {
    config: TopicConfig,
    explicit: Explicit,
}

/// What was asked for: kind and bytes of each value, by its key. Blocks are told in this order.
type Explicit = BTreeMap<&'static str, (u8, Box<[u8]>)>;

impl TopicOptions {
    /// Resolves the options block of a creation of `partitions` partitions. Values are kept in
    /// their canonical kinds. 0 for a number of bytes or of microseconds is as if its key was not
    /// there.
    ///
    /// # Errors
    /// A key that topics do not have, a value that is not allowed, and values that do not go
    /// together; see [`OptionError`].
    pub fn resolve(partitions: u32, block: &OptionsBlock<'_>) -> Result<Self, OptionError> {
        let config = TopicConfig { partitions, ..TopicConfig::default() };
        let mut options = TopicOptions { config, explicit: Explicit::new() };
        for (key, value) in block.iter() {
            let option = known(key)?;
            let meaning = option.meaning(value).ok_or_else(|| refused(option, value))?;
            if meaning == Meaning::ServerDefault {
                continue;
            }
            options.config.set(option, meaning);
            options.ask(option, meaning.canonical(option));
        }
        options.config.check_together()?;
        Ok(options)
    }

    /// These options after an update. What the block names is kept as it came; what it does not
    /// name stays. A value that means "the server's default" changes what is told and nothing that
    /// is in force.
    ///
    /// # Errors
    /// As [`TopicOptions::resolve`], and for a key that is fixed at creation.
    pub fn patched(&self, block: &OptionsBlock<'_>) -> Result<Self, OptionError> {
        let mut options = self.clone();
        for (key, value) in block.iter() {
            let option = known(key)?;
            if !option.updatable() {
                return Err(OptionError::Fixed { key: option.key() });
            }
            let meaning = option.meaning(value).ok_or_else(|| refused(option, value))?;
            if meaning != Meaning::ServerDefault {
                options.config.set(option, meaning);
            }
            options.ask(option, value);
        }
        options.config.check_together()?;
        Ok(options)
    }

    /// The values in force.
    pub fn config(&self) -> &TopicConfig {
        &self.config
    }

    /// The values that were asked for, as an encoded options block, sorted by key.
    pub fn explicit(&self) -> Vec<u8> {
        let asked = self.explicit.iter();
        encode(asked.map(|(key, (code, bytes))| (*key, HeaderValue::from_parts(*code, bytes))))
    }

    /// The defaults of all other keys, as an encoded options block, sorted by key.
    pub fn derived(&self) -> Vec<u8> {
        let mut others: Vec<_> = TopicOption::ALL
            .into_iter()
            .filter(|option| !self.explicit.contains_key(option.key()))
            .map(|option| (option.key(), option.default_value()))
            .collect();
        others.sort_unstable_by_key(|(key, _)| *key);
        encode(others.into_iter())
    }

    /// What is stored, read back. `explicit` is a block of [`TopicOptions::explicit`]; nothing
    /// where it names keys that topics do not have.
    pub(crate) fn stored(config: TopicConfig, explicit: &OptionsBlock<'_>) -> Option<Self> {
        let mut options = TopicOptions { config, explicit: Explicit::new() };
        for (key, value) in explicit.iter() {
            options.ask(TopicOption::of_key(key)?, value);
        }
        Some(options)
    }

    pub(crate) fn set_partitions(&mut self, partitions: u32) {
        self.config.partitions = partitions;
    }

    fn ask(&mut self, option: TopicOption, value: HeaderValue<'_>) {
        let mut field = Vec::new();
        value.encode(&mut field).expect("what was decoded, and what is canonical, encodes");
        // `[kind: 1][length: 4][data]`
        let data = field.split_off(5).into_boxed_slice();
        self.explicit.insert(option.key(), (value.code(), data));
    }
}

/// What differs from the default counts as asked for.
impl From<TopicConfig> for TopicOptions {
    fn from(config: TopicConfig) -> Self {
        let defaults = TopicConfig::default();
        let mut options = TopicOptions { config, explicit: Explicit::new() };
        for option in TopicOption::ALL {
            let value = options.config.get(option);
            if value != defaults.get(option) {
                options.ask(option, value.canonical(option));
            }
        }
        options
    }
}

impl TopicConfig {
    fn get(&self, option: TopicOption) -> Meaning {
        match option {
            TopicOption::CompressionAlgorithm => Meaning::Compression(self.compression_algorithm),
            TopicOption::MessageExpiry => {
                let us = self.message_expiry.map_or(NO_LIMIT, |expiry| expiry.as_micros() as u64);
                Meaning::Number(us)
            }
            TopicOption::MaxTopicSize => Meaning::Number(self.max_topic_size.unwrap_or(NO_LIMIT)),
            TopicOption::SegmentSize => Meaning::Number(self.segment_bytes),
            TopicOption::EnforceFsync => Meaning::Flag(self.enforce_fsync),
            TopicOption::MessagesRequiredToSave => {
                Meaning::Number(self.messages_required_to_save.into())
            }
            TopicOption::SizeOfMessagesRequiredToSave => {
                Meaning::Number(self.size_of_messages_required_to_save)
            }
            TopicOption::PreallocateSegments => Meaning::Flag(self.preallocate_segments),
        }
    }

    fn set(&mut self, option: TopicOption, meaning: Meaning) {
        let limit = |number| (number != NO_LIMIT).then_some(number);
        match (option, meaning) {
            (TopicOption::CompressionAlgorithm, Meaning::Compression(algorithm)) => {
                self.compression_algorithm = algorithm;
            }
            (TopicOption::MessageExpiry, Meaning::Number(us)) => {
                self.message_expiry = limit(us).map(Duration::from_micros);
            }
            (TopicOption::MaxTopicSize, Meaning::Number(bytes)) => {
                self.max_topic_size = limit(bytes);
            }
            (TopicOption::SegmentSize, Meaning::Number(bytes)) => self.segment_bytes = bytes,
            (TopicOption::EnforceFsync, Meaning::Flag(flag)) => self.enforce_fsync = flag,
            (TopicOption::MessagesRequiredToSave, Meaning::Number(messages)) => {
                self.messages_required_to_save =
                    u32::try_from(messages).expect("checked against its maximum");
            }
            (TopicOption::SizeOfMessagesRequiredToSave, Meaning::Number(bytes)) => {
                self.size_of_messages_required_to_save = bytes;
            }
            (TopicOption::PreallocateSegments, Meaning::Flag(flag)) => {
                self.preallocate_segments = flag;
            }
            (option, meaning) => unreachable!("{} does not mean {meaning:?}", option.key()),
        }
    }

    /// What one option demands of another.
    pub(crate) fn check_together(&self) -> Result<(), OptionError> {
        let segment_size = self.segment_bytes;
        if let Some(max_topic_size) = self.max_topic_size
            && max_topic_size < segment_size
        {
            return Err(OptionError::TopicSize { max_topic_size, segment_size });
        }
        let partitions = self.partitions;
        let reserved = segment_size.saturating_mul(partitions.into());
        if self.preallocate_segments && reserved > PREALLOCATED_BYTES_MAX {
            return Err(OptionError::Preallocation { segment_size, partitions });
        }
        Ok(())
    }
}

fn known(key: &str) -> Result<TopicOption, OptionError> {
    TopicOption::of_key(key).ok_or_else(|| OptionError::Unknown { key: key.to_owned() })
}

fn refused(option: TopicOption, value: HeaderValue<'_>) -> OptionError {
    let (key, allowed) = (option.key(), option.allowed());
    OptionError::Value { key, found: format!("{value:?}"), allowed }
}

fn encode<'a>(values: impl Iterator<Item = (&'static str, HeaderValue<'a>)>) -> Vec<u8> {
    let mut block = OptionsBuilder::new();
    for (key, value) in values {
        block.push(key, value).expect("eight keys of known length");
    }
    block.block().bytes().to_vec()
}
