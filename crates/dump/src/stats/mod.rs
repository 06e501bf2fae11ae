//! `stats`: sizes, gaps, delays and rates of what is selected, drawn or as JSON.

mod draw;
mod histogram;
mod json;
mod series;
mod svg;

use std::path::PathBuf;

use corelog_format::{Batch, BatchHeader, Frame};

use crate::discover::Partition;
use crate::failure::{Failure, Shown};
use crate::render;
use crate::select::Selection;
use crate::session::Session;
use crate::visit::{Order, each_batch};
use crate::walk::Flow;

use histogram::Histogram;
use series::Series;

/// What to make of the figures.
#[derive(Debug)]
pub(crate) struct Output {
    /// One JSON document on standard output, not drawings.
    pub(crate) json: bool,
    /// Drawings for this file as well.
    pub(crate) svg: Option<PathBuf>,
}

/// Figures of what is selected. Their memory does not grow with it.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    batches: u64,
    messages: u64,
    /// Batches, headers included.
    bytes: u64,
    payload_bytes: u64,
    user_header_bytes: u64,
    offsets: Option<(u64, u64)>,
    times: Option<(u64, u64)>,
    batch_bytes: Histogram,
    batch_messages: Histogram,
    payload_sizes: Histogram,
    gaps_us: Histogram,
    delays_us: Histogram,
    /// Messages whose producer's clock was ahead of the server's.
    from_the_future: u64,
    /// Batches that were stamped before the one in front of them.
    time_went_back: u64,
    rate: Series,
    byte_counts: ByteCounts,
}

/// How often each byte stands in payloads.
#[derive(Debug)]
struct ByteCounts([u64; 256]);

impl Default for ByteCounts {
    fn default() -> ByteCounts {
        ByteCounts([0; 256])
    }
}

/// What a histogram counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes,
    Micros,
    Messages,
}

/// Gathers and prints.
pub(crate) fn run(
    session: &mut Session,
    partitions: &[Partition],
    selection: &Selection,
    output: &Output,
) -> Result<(), Failure> {
    let mut stats = Stats::default();
    for partition in partitions {
        // Gaps are those within a partition.
        let mut last = None;
        let one = std::slice::from_ref(partition);
        each_batch(session, one, selection, Order::Forwards, &mut |_, _, batch| {
            if stats.batch(&batch, selection, last) {
                last = Some(batch.header().base_timestamp);
            }
            Ok(Flow::Continue)
        })?;
    }
    if let Some(path) = &output.svg {
        // Never over something that is there: it could be a segment.
        let file = std::fs::File::create_new(path).map_err(Failure::io(path, "create"))?;
        svg::write(&stats, file).map_err(Failure::io(path, "write"))?;
        session.say(format_args!("{}: written", Shown(path)))?;
    }
    match output.json {
        true => json::write(&stats, &mut session.out)?,
        false => draw::write(&stats, &mut session.out, session.style)?,
    }
    Ok(())
}

impl Stats {
    /// Counts a batch, if any of its messages is selected. `last`: the time of the one before.
    fn batch(&mut self, batch: &Batch<'_>, selection: &Selection, last: Option<u64>) -> bool {
        let (header, before) = (batch.header(), self.messages);
        for frame in batch.frames() {
            if selection.takes(header, &frame) {
                self.message(header, &frame);
            }
        }
        if self.messages == before {
            return false;
        }
        self.batches += 1;
        self.bytes += header.batch_length;
        self.batch_bytes.add(header.batch_length);
        self.batch_messages.add(u64::from(header.message_count));
        match last {
            Some(last) if header.base_timestamp < last => self.time_went_back += 1,
            Some(last) => self.gaps_us.add(header.base_timestamp - last),
            None => {}
        }
        self.rate.add(header.base_timestamp, header.batch_length);
        widen(&mut self.times, header.base_timestamp);
        true
    }

    fn message(&mut self, header: &BatchHeader, frame: &Frame<'_>) {
        let payload = frame.payload();
        self.messages += 1;
        self.payload_bytes += payload.len() as u64;
        self.user_header_bytes += frame.user_headers().bytes().len() as u64;
        self.payload_sizes.add(payload.len() as u64);
        match header.base_timestamp.checked_sub(render::origin(header, frame)) {
            Some(delay) => self.delays_us.add(delay),
            None => self.from_the_future += 1,
        }
        widen(&mut self.offsets, render::offset(header, frame));
        for byte in payload {
            self.byte_counts.0[usize::from(*byte)] += 1;
        }
    }

    /// Shannon's entropy of the payloads' bytes: 8 bits a byte cannot be compressed.
    fn entropy_bits(&self) -> f64 {
        let total = self.payload_bytes as f64;
        let counts = self.byte_counts.0.iter().filter(|count| **count > 0);
        counts
            .map(|count| *count as f64 / total)
            .map(|share| -share * share.log2())
            .sum::<f64>()
            // Not -0, of one byte only.
            .abs()
    }

    /// The histograms with their names in JSON, titles, and what they count.
    fn histograms(&self) -> [(&'static str, &'static str, Unit, &Histogram); 5] {
        [
            ("batch_bytes", "bytes of a batch", Unit::Bytes, &self.batch_bytes),
            ("batch_messages", "messages of a batch", Unit::Messages, &self.batch_messages),
            ("payload_bytes", "bytes of a payload", Unit::Bytes, &self.payload_sizes),
            ("gap_us", "from a batch to the next", Unit::Micros, &self.gaps_us),
            ("delay_us", "from the producer to the server", Unit::Micros, &self.delays_us),
        ]
    }
}

fn widen(range: &mut Option<(u64, u64)>, value: u64) {
    let (low, high) = range.unwrap_or((value, value));
    *range = Some((low.min(value), high.max(value)));
}

impl Unit {
    /// A value for people.
    fn text(self, value: u64) -> String {
        match self {
            Unit::Bytes => crate::units::Bytes(value).to_string(),
            Unit::Micros => crate::units::Micros(value).to_string(),
            Unit::Messages => value.to_string(),
        }
    }
}
