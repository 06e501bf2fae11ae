//! What happened in a run: the last events in words, and one hash over all of them.

use std::collections::VecDeque;
use std::fmt::Write as _;

use corelog_io::sim::Event;

/// The events of one run.
pub(crate) struct History {
    last: VecDeque<String>,
    shown: usize,
    hash: u64,
    count: u64,
}

impl History {
    /// Keeps the last `shown` events in words.
    pub(crate) fn new(shown: usize) -> Self {
        History { last: VecDeque::new(), shown, hash: 0xcbf2_9ce4_8422_2325, count: 0 }
    }

    /// Notes one event; `at_us` is virtual time.
    pub(crate) fn note(&mut self, at_us: u64, event: &str) {
        let line = format!("{:>11.3} ms  {event}", at_us as f64 / 1_000.0);
        self.hash_bytes(line.as_bytes());
        self.count += 1;
        if self.last.len() >= self.shown.max(1) {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Takes what the disk was asked into the hash.
    pub(crate) fn hash_disk(&mut self, events: &[Event]) {
        for event in events {
            self.hash_bytes(event.path.as_os_str().as_encoded_bytes());
            let numbers = [
                event.op as u64,
                event.at.unwrap_or(u64::MAX),
                event.len as u64,
                event.begun,
                event.ended.unwrap_or(u64::MAX),
                event.errno.map_or(0, i32::unsigned_abs).into(),
            ];
            numbers.iter().for_each(|number| self.hash_bytes(&number.to_le_bytes()));
        }
    }

    /// FNV-1a: nobody attacks it, and it needs no other crate.
    fn hash_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The last events, one a line.
    pub(crate) fn tail(&self) -> String {
        let mut out = String::new();
        for line in &self.last {
            let _ = writeln!(out, "{line}");
        }
        out
    }
}
