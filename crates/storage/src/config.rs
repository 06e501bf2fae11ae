//! What a topic asks of its partitions' logs, and what a shard's partitions may use together.

use std::fmt;
use std::time::Duration;

/// Smallest segment that may be configured, bytes.
pub const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// Largest segment that may be configured, bytes.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// How one partition's log behaves. Fixed while the partition is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// A segment that has reached this many bytes is sealed before the next batch; a batch is
    /// never split, so a sealed file is at most one batch longer.
    /// A multiple of 512 in 1 MiB..=1 GiB. Default 1 GiB.
    pub segment_bytes: u64,
    /// Durable BEFORE an append is answered, whatever the thresholds say; polls end at `durable`.
    /// Default false.
    pub enforce_fsync: bool,
    /// Buffered messages are sent to the device when this many wait, at the latest.
    /// 1..=16,777,216. Default 1,024.
    pub messages_required_to_save: u32,
    /// Buffered bytes are sent to the device when this many wait, at the latest.
    /// 1..=1 GiB. Default 1 MiB.
    pub size_of_messages_required_to_save: u64,
    /// Reserve a whole segment's space when it is created, instead of growing steps. Default false.
    pub preallocate_segments: bool,
    /// Buffered bytes are sent to the device after this long, at the latest. Default 5 ms.
    pub flush_after: Duration,
    /// One index entry at the first batch that starts at or after each step of log, bytes.
    /// 4 KiB..=1 GiB. Default 64 KiB.
    pub index_step: u64,
    /// Check both checksums of every batch that is read from the disk. Default true; false checks
    /// only the layout.
    pub verify_reads: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig {
            segment_bytes: SEGMENT_BYTES_MAX,
            enforce_fsync: false,
            messages_required_to_save: 1024,
            size_of_messages_required_to_save: 1 << 20,
            preallocate_segments: false,
            flush_after: Duration::from_millis(5),
            index_step: 64 << 10,
            verify_reads: true,
        }
    }
}

impl LogConfig {
    /// Refuses values outside of their limits, naming the option, before any file is touched.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let within = |option, value: u64, min: u64, max: u64| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError { option, value, min, max })
            }
        };
        within("segment_size", self.segment_bytes, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)?;
        if !self.segment_bytes.is_multiple_of(512) {
            let down = self.segment_bytes / 512 * 512;
            let (option, value) = ("segment_size (a multiple of 512)", self.segment_bytes);
            return Err(ConfigError { option, value, min: down, max: down + 512 });
        }
        let messages = u64::from(self.messages_required_to_save);
        within("messages_required_to_save", messages, 1, 16_777_216)?;
        let bytes = self.size_of_messages_required_to_save;
        within("size_of_messages_required_to_save", bytes, 1, 1 << 30)?;
        let flush_us = u64::try_from(self.flush_after.as_micros()).unwrap_or(u64::MAX);
        within("flush_after (microseconds)", flush_us, 1, 60_000_000)?;
        within("index_step", self.index_step, 4 << 10, 1 << 30)
    }
}

/// An option outside of its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The option's name.
    pub option: &'static str,
    /// The value that was asked for.
    pub value: u64,
    /// The smallest allowed value.
    pub min: u64,
    /// The largest allowed value.
    pub max: u64,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { option, value, min, max } = self;
        write!(f, "{option} = {value} is not allowed: choose a value from {min} to {max}")
    }
}

impl std::error::Error for ConfigError {}

/// What all partitions of one shard may use together; fixed at open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedLimits {
    /// Buffers kept for readers, bytes: dispatched ones of the tails, and what was read and read
    /// ahead from files. Each of the two is left half of it. Default 32 MiB.
    pub cache_bytes: usize,
    /// Open files kept for reading segments. Default 256.
    pub open_files: usize,
    /// Open files of active segments. Where more partitions are appended to at a time, one that has
    /// nothing on its way closes its file, and opens it again for its next append. Default 1,024.
    pub active_files: usize,
    /// Largest single write, bytes: a power of two from 4 KiB. Default 1 MiB.
    pub write_bytes: usize,
    /// Writes in flight for one partition. Default 8.
    pub writes_in_flight: usize,
    /// A log write goes out while less than this is in flight, all partitions together, bytes, or
    /// where it is its partition's only one. That keeps the device busy; what is ready beyond it
    /// waits in memory and follows at once when a write comes back, before the appends behind that
    /// one are copied. Default 8 MiB.
    pub flying_bytes: usize,
    /// Largest single read for a poll, bytes: a power of two from 4 KiB (a batch, or a step of the
    /// index, that is longer is read whole). Default 1 MiB.
    pub read_bytes: usize,
    /// Bytes read ahead of one sequential reader, within half of `cache_bytes` for all of them; 0
    /// reads nothing ahead. Default 16 MiB.
    pub read_ahead_bytes: usize,
    /// Buffers that polls hold while they wait for more, bytes; beyond it a poll ends with what it
    /// has. Default 32 MiB.
    pub held_bytes: usize,
    /// Consumers and groups that may have stored an offset in one partition, at most 1,048,573.
    /// Default 10,000.
    pub consumers: usize,
    /// Loaded indexes of sealed segments, all partitions together. Default 64.
    pub loaded_indexes: usize,
}

impl Default for SharedLimits {
    fn default() -> Self {
        SharedLimits {
            cache_bytes: 32 << 20,
            open_files: 256,
            active_files: 1024,
            write_bytes: 1 << 20,
            writes_in_flight: 8,
            flying_bytes: 8 << 20,
            read_bytes: 1 << 20,
            read_ahead_bytes: 16 << 20,
            held_bytes: 32 << 20,
            consumers: 10_000,
            loaded_indexes: 64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named_and_checked_at_both_ends() {
        type Set = fn(&mut LogConfig, u64);
        let options: &[(&str, Set, u64, u64)] = &[
            ("segment_size", |c, v| c.segment_bytes = v, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX),
            (
                "messages_required_to_save",
                |c, v| c.messages_required_to_save = u32::try_from(v).unwrap(),
                1,
                16_777_216,
            ),
            (
                "size_of_messages_required_to_save",
                |c, v| c.size_of_messages_required_to_save = v,
                1,
                1 << 30,
            ),
            ("flush_after", |c, v| c.flush_after = Duration::from_micros(v), 1, 60_000_000),
            ("index_step", |c, v| c.index_step = v, 4096, 1 << 30),
        ];
        for (name, set, min, max) in options {
            for (value, fine) in
                [(min - 1, false), (*min, true), (*max, true), (max + 1, false), (0, false)]
            {
                let mut config = LogConfig::default();
                set(&mut config, value);
                let result = config.validate();
                assert_eq!(result.is_ok(), fine, "{name} = {value}");
                if let Err(error) = result {
                    assert!(error.to_string().starts_with(name), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_segment_size_off_the_sector_is_refused() {
        let config = LogConfig { segment_bytes: SEGMENT_BYTES_MIN + 1, ..LogConfig::default() };
        assert!(config.validate().unwrap_err().to_string().contains("multiple of 512"));
    }
}
