//! What the files of a kept round hold, written down beside them, and read back by `verify`: minutes
//! or a power cut later, without the engine.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::content::{Content, Sizes};
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::phases::Stage;
use crate::phases::files::{self, Written, topic_dir};
use crate::phases::moved::Moved;
use crate::place::Place;
use crate::plan::Sent;
use crate::report::{self, ended_name, program};
use crate::run::Ended;
use crate::run_error::RunError;
use crate::size;
use crate::stats::mb_per_s;

/// What one round's files hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) round: u32,
    pub(crate) seed: u64,
    pub(crate) sizes: Sizes,
    pub(crate) is_retained: bool,
    pub(crate) sent: Sent,
}

/// Version of the file.
const SCHEMA: u64 = 1;

impl Kept {
    /// Writes it down; durable, since it is wanted after a power cut.
    pub(crate) fn save(&self, place: &Place) -> Result<(), RunError> {
        let path = place.contents_dir()?.join(format!("round-{}.json", self.round));
        let failed = |source| failed("writing", &path, source);
        fs::write(&path, format!("{:#}\n", self.to_json())).map_err(failed)?;
        fs::File::open(&path).and_then(|file| file.sync_all()).map_err(failed)?;
        Ok(place.settle()?)
    }

    /// All rounds that were kept in a directory, in order.
    pub(crate) fn load_all(place: &Place) -> Result<Vec<Kept>, RunError> {
        let dir = place.path().join("contents");
        let mut all = Vec::new();
        for entry in fs::read_dir(&dir).map_err(|source| failed("reading", &dir, source))? {
            let path = entry.map_err(|source| failed("reading", &dir, source))?.path();
            let text = fs::read(&path).map_err(|source| failed("reading", &path, source))?;
            let kept = serde_json::from_slice(&text).ok().as_ref().and_then(Kept::from_json);
            let invalid = || io::Error::from(io::ErrorKind::InvalidData);
            all.push(kept.ok_or_else(|| failed("reading", &path, invalid()))?);
        }
        all.sort_by_key(|kept| kept.round);
        Ok(all)
    }

    /// Reads the round's files back with so many readers and compares every byte.
    pub(crate) fn verify(
        &self,
        place: &Place,
        readers: u32,
        interrupt: &Interrupt,
        live: &Live,
    ) -> Result<Moved, RunError> {
        let content = Content::of(self.seed, &self.sizes)?;
        let stage = Stage { content: &content, round: self.round, poll_bytes: 1, interrupt, live };
        let written = Written {
            dir: &topic_dir(&place.round_dir(self.round), 0, 0),
            partitions: self.sent.partitions(),
            readers,
            sent: Some(&self.sent),
            producers: self.sent.producers(),
            is_retained: self.is_retained,
        };
        files::run(stage, written)
    }

    fn to_json(&self) -> Value {
        let partitions = 0..self.sent.partitions();
        let sent: Vec<&[u32]> = partitions.map(|one| self.sent.batches(one)).collect();
        json!({
            "schema": SCHEMA,
            "round": self.round,
            "seed": self.seed,
            "batch_messages": [self.sizes.messages.start, self.sizes.messages.end],
            "message_bytes": [self.sizes.payload.start, self.sizes.payload.end],
            "user_headers": self.sizes.headers,
            "entropy_percent": self.sizes.entropy_percent,
            "has_retention": self.is_retained,
            "batches": sent,
        })
    }

    /// None for a file that is not such a one.
    fn from_json(json: &Value) -> Option<Kept> {
        let number = |pointer: &str| json.pointer(pointer).and_then(Value::as_u64);
        if number("/schema")? != SCHEMA {
            return None;
        }
        let small = |pointer: &str| number(pointer).and_then(|number| u32::try_from(number).ok());
        let large = |pointer: &str| number(pointer).and_then(|number| usize::try_from(number).ok());
        let row = |row: &Value| -> Option<Vec<u32>> {
            let batches = row.as_array()?.iter();
            batches.map(|one| one.as_u64().and_then(|one| u32::try_from(one).ok())).collect()
        };
        let rows = json.get("batches")?.as_array()?.iter().map(row).collect::<Option<Vec<_>>>()?;
        let messages = small("/batch_messages/0")?..small("/batch_messages/1")?;
        let payload = large("/message_bytes/0")?..large("/message_bytes/1")?;
        if messages.start == 0 || messages.is_empty() || payload.is_empty() {
            return None;
        }
        let headers = u16::try_from(small("/user_headers")?).ok()?;
        let entropy_percent = u8::try_from(small("/entropy_percent")?).ok()?;
        if entropy_percent > 100 {
            return None;
        }
        Some(Kept {
            round: small("/round")?,
            seed: number("/seed")?,
            sizes: Sizes { messages, payload, headers, entropy_percent },
            is_retained: json.get("has_retention")?.as_bool()?,
            sent: Sent::of(rows)?,
        })
    }
}

/// A round whose files were read back whole: all of it is as it was sent.
#[derive(Debug, Clone)]
pub(crate) struct CheckedRound {
    round: u32,
    messages: u64,
    bytes: u64,
    elapsed: Duration,
}

impl CheckedRound {
    /// For people.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let CheckedRound { round, messages, bytes, elapsed } = self;
        writeln!(
            out,
            "round {round}: {messages} messages ({}) are as they were sent, both layers of \
             checksums hold; {:.0} MB/s",
            size::human(*bytes),
            mb_per_s(*bytes, *elapsed),
        )
    }
}

/// What `verify` has read back.
#[derive(Debug)]
pub(crate) struct Checked {
    rounds: Vec<CheckedRound>,
    pub(crate) ended: Ended,
}

impl Checked {
    /// Nothing yet.
    pub(crate) fn nothing() -> Checked {
        Checked { rounds: Vec::new(), ended: Ended::Complete }
    }

    /// Adds a round, and answers it.
    pub(crate) fn add(&mut self, round: u32, moved: &Moved) -> &CheckedRound {
        let Moved { messages, bytes, .. } = *moved;
        self.rounds.push(CheckedRound { round, messages, bytes, elapsed: moved.elapsed() });
        self.rounds.last().expect("one was added")
    }

    /// For scripts.
    pub(crate) fn to_json(&self) -> Value {
        let round = |one: &CheckedRound| {
            json!({
                "round": one.round,
                "messages": one.messages,
                "bytes": one.bytes,
                "seconds": one.elapsed.as_secs_f64(),
                "mb_per_s": mb_per_s(one.bytes, one.elapsed),
            })
        };
        let sum = |of: fn(&CheckedRound) -> u64| self.rounds.iter().map(of).sum::<u64>();
        json!({
            "schema": report::SCHEMA,
            "program": program(),
            "ended": ended_name(self.ended),
            "rounds": self.rounds.iter().map(round).collect::<Vec<_>>(),
            // A difference ends the command, and there is no result.
            "differing_bytes": 0,
            "checked_messages": sum(|one| one.messages),
            "checked_bytes": sum(|one| one.bytes),
        })
    }
}

fn failed(doing: &str, path: &Path, source: io::Error) -> RunError {
    RunError::Engine {
        doing: format!("{doing} {}", PathBuf::from(path).display()),
        source: source.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_is_read_back_and_nonsense_is_not() {
        let mut sent = Sent::nothing(2, 3);
        sent.raise(1, 2, 77);
        let sizes = Sizes { messages: 1..9, payload: 0..100, headers: 4, entropy_percent: 30 };
        let kept = Kept { round: 3, seed: u64::MAX, sizes, is_retained: true, sent };
        let json = kept.to_json();
        assert_eq!(Kept::from_json(&json), Some(kept));
        for (pointer, value) in [
            ("/schema", json!(2)),
            ("/batch_messages/0", json!(0)),
            ("/batch_messages/1", json!(1)),
            ("/message_bytes", json!([5, 5])),
            ("/batches/0", json!([1])),
            ("/batches/0/0", json!(-1)),
            ("/batches", json!([])),
            ("/user_headers", json!(70_000)),
            ("/entropy_percent", json!(101)),
        ] {
            let mut wrong = json.clone();
            *wrong.pointer_mut(pointer).unwrap() = value;
            assert_eq!(Kept::from_json(&wrong), None, "{pointer}");
        }
    }
}
