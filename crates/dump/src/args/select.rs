//! Which batches and messages: the flags that several commands share.

use std::ops::Range;

use clap::Args;
use regex::bytes::Regex;

use crate::ranges::{self, Moments};
use crate::select::{KeyMatch, Selection};

/// Flags that select.
#[derive(Debug, Args)]
pub(crate) struct SelectArgs {
    /// Only these offsets: A..B (B is not included), A.., ..B, or one offset.
    #[arg(long, value_name = "A..B", value_parser = ranges::offsets, allow_hyphen_values = true)]
    offset: Option<Range<u64>>,
    /// Only batches that the server stamped in this time: A..B, A.. or ..B, each RFC 3339, a date,
    /// relative (-1h, -15m, now) or microseconds.
    #[arg(long, value_name = "A..B", value_parser = ranges::moments, allow_hyphen_values = true)]
    time: Option<Moments>,
    /// Only messages with this id (several may be given).
    #[arg(long, value_name = "ID", value_parser = id)]
    id: Vec<u128>,
    /// Only messages with this user header, or with this value of it (all that are given).
    #[arg(long, value_name = "K[=V]", value_parser = KeyMatch::parse)]
    key: Vec<KeyMatch>,
    /// Only messages whose payload matches this regular expression.
    #[arg(long, value_name = "REGEX")]
    grep: Option<Regex>,
    /// Only messages whose payload does not match this regular expression.
    #[arg(long, value_name = "REGEX")]
    not_grep: Option<Regex>,
}

fn id(text: &str) -> Result<u128, String> {
    text.parse().map_err(|_| "an id is a number in decimal, of 128 bits at most".to_string())
}

impl SelectArgs {
    /// What was selected, `now` being the present in microseconds.
    pub(crate) fn resolve(self, now: u64) -> Selection {
        Selection {
            offsets: self.offset.unwrap_or(0..u64::MAX),
            times: self.time.map_or(0..u64::MAX, |time| time.resolve(now)),
            ids: self.id,
            keys: self.key,
            grep: self.grep,
            not_grep: self.not_grep,
        }
    }
}
