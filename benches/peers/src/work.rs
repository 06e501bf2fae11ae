//! What every log is given, and what must come back: content follows from producer and number.

use std::fmt;

use clap::ValueEnum;

use crate::Fault;

/// Payload bytes of a record.
pub(crate) const RECORD_BYTES: usize = 1000;

/// Bytes of a record that say which one it is: producer and number.
const HEAD: usize = 16;

/// What an answer promises, and how many ask for it at once. Figures of different classes are never
/// set side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Class {
    /// The batch survives the end of the process; one producer.
    Written,
    /// The same; eight producers.
    WrittenMany,
    /// The batch survives the power; one producer, each batch synced alone.
    Durable,
    /// The same; sixteen producers, who may share a sync.
    DurableMany,
}

impl Class {
    /// What it is called in a heading.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Class::Written => "Answered when written, one producer",
            Class::WrittenMany => "Answered when written, 8 producers",
            Class::Durable => "Durable before the answer, one producer",
            Class::DurableMany => "Durable before the answer, 16 producers (group commit)",
        }
    }

    pub(crate) fn is_durable(self) -> bool {
        matches!(self, Class::Durable | Class::DurableMany)
    }

    /// How much of it, `scale` thousandths of the whole.
    pub(crate) fn work(self, scale: u32) -> Work {
        let (producers, batches, records) = match self {
            Class::Written => (1, 300, 1000),
            Class::WrittenMany => (8, 40, 1000),
            Class::Durable => (1, 300, 10),
            Class::DurableMany => (16, 100, 1),
        };
        let batches = (batches * u64::from(scale) / 1000).max(2);
        Work { producers, batches, records }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no class is hidden");
        f.write_str(value.get_name())
    }
}

/// Who appends how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) producers: u32,
    /// Of each producer; the first one is not timed.
    pub(crate) batches: u64,
    /// Of each batch.
    pub(crate) records: u64,
}

impl Work {
    /// Records of each producer.
    pub(crate) fn records_each(self) -> u64 {
        self.batches * self.records
    }

    /// Payload bytes of all that is appended.
    pub(crate) fn payload_bytes(self) -> u64 {
        u64::from(self.producers) * self.records_each() * RECORD_BYTES as u64
    }

    /// The same without each producer's first batch.
    pub(crate) fn timed_bytes(self) -> u64 {
        self.payload_bytes() / self.batches * (self.batches - 1)
    }
}

/// Writes the record `number` of `producer` into `record`, which has [`RECORD_BYTES`] bytes.
pub(crate) fn fill(record: &mut [u8], producer: u32, number: u64) {
    record[..8].copy_from_slice(&u64::from(producer).to_le_bytes());
    record[8..HEAD].copy_from_slice(&number.to_le_bytes());
    // Not compressible, and another one for each record.
    let mut state = number ^ (u64::from(producer) << 48);
    for word in record[HEAD..].chunks_mut(8) {
        // Splitmix64, by Sebastiano Vigna.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes()[..word.len()]);
    }
}

/// Holds what is read back to what was appended: each record once, each producer's in order.
#[derive(Debug)]
pub(crate) struct Checker {
    work: Work,
    /// The next number of each producer.
    next: Vec<u64>,
    expected: Vec<u8>,
    bytes: u64,
}

impl Checker {
    pub(crate) fn new(work: Work) -> Checker {
        let next = vec![0; work.producers as usize];
        Checker { work, next, expected: vec![0; RECORD_BYTES], bytes: 0 }
    }

    /// Takes the next record in the order of the log.
    pub(crate) fn feed(&mut self, record: &[u8]) -> Result<(), Fault> {
        let number = |at: usize| record.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let (Some(producer), Some(found)) = (number(0), number(8)) else {
            return Err(format!("a record of {} bytes came back", record.len()).into());
        };
        let next = usize::try_from(producer).ok().and_then(|producer| self.next.get_mut(producer));
        let Some(next) = next else {
            return Err(format!("a record of producer {producer}, who is none, came back").into());
        };
        if *next != found {
            let what = format!("producer {producer}: record {found} came back instead of {next}");
            return Err(what.into());
        }
        *next += 1;
        fill(&mut self.expected, producer as u32, found);
        if record != self.expected {
            return Err(format!("record {found} of producer {producer} differs").into());
        }
        self.bytes += record.len() as u64;
        Ok(())
    }

    /// All of it must have come. The payload bytes that were compared.
    pub(crate) fn end(self) -> Result<u64, Fault> {
        let all = self.work.records_each();
        match self.next.iter().position(|next| *next != all) {
            None => Ok(self.bytes),
            Some(producer) => {
                let found = self.next[producer];
                Err(format!("{found} of {all} records of producer {producer} came back").into())
            }
        }
    }
}
