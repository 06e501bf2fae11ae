//! What `crash` says.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::Outcome;
use crate::report::{SCHEMA, ended_name, percentiles, program};
use crate::run::{Ended, Settings};
use crate::size;

impl Outcome {
    /// For people.
    pub(crate) fn print(&self, settings: &Settings, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{} processes killed{}, {} batches answered when {}, none of them missing; {} more were \
             there",
            self.lives,
            if self.ended == Ended::Interrupted { " (then stopped)" } else { "" },
            self.acked,
            settings.promise(),
            self.beyond,
        )?;
        writeln!(
            out,
            "{} messages ({}) read back, every byte compared; opening p50 {:.1} ms, max {:.1} ms",
            self.messages,
            size::human(self.bytes),
            self.opening.percentile_us(50.0) / 1e3,
            self.opening.max_us() / 1e3,
        )
    }

    /// For scripts.
    pub(crate) fn to_json(&self, settings: &Settings) -> Value {
        json!({
            "schema": SCHEMA,
            "program": program(),
            "ended": ended_name(self.ended),
            "killed": self.lives,
            "answered_batches": self.acked,
            "answered_when": settings.promise(),
            "unanswered_batches_found": self.beyond,
            "missing_batches": 0,
            "checked_messages": self.messages,
            "checked_bytes": self.bytes,
            "opening_us": percentiles(&self.opening),
        })
    }
}
