//! The histograms as a log of HdrHistogram, version 2, which its tools in all languages read.
//!
//! One line a second of a phase of a round, tagged with the phase's name: `append`. In an open loop
//! that is the response time, and the service time stands beside it as `append.service`, one line a
//! round. Values are nanoseconds; the column for people, the interval's maximum, is in milliseconds.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriter, IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use super::Report;

/// Nanoseconds of the unit of the interval's maximum.
const MAX_DIVISOR: f64 = 1e6;

/// A histogram and where it belongs.
struct Interval {
    tag: String,
    begun: Duration,
    elapsed: Duration,
    nanos: Histogram<u64>,
}

impl Report<'_> {
    /// Writes the whole log.
    pub(crate) fn write_hdr(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut intervals = Vec::new();
        for phase in &self.outcome.phases {
            for round in &phase.rounds {
                let seconds = round.seconds.histograms(round.elapsed).into_iter();
                intervals.extend(seconds.map(|(begin, elapsed, nanos)| Interval {
                    tag: phase.name.to_owned(),
                    begun: round.begun + begin,
                    elapsed,
                    nanos,
                }));
                intervals.extend(round.response.is_some().then(|| Interval {
                    tag: format!("{}.service", phase.name),
                    begun: round.begun,
                    elapsed: round.elapsed,
                    nanos: round.service.nanos().clone(),
                }));
            }
        }
        intervals.sort_by_key(|interval| interval.begun);
        write(out, self.started, &intervals)
    }
}

fn write(mut out: &mut dyn Write, started: SystemTime, all: &[Interval]) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log: IntervalLogWriter<'_, '_, _, _> = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("corelog-bench: values in nanoseconds, Interval_Max in milliseconds")
        .with_start_time(started)
        .with_base_time(started)
        .with_max_value_divisor(MAX_DIVISOR)
        .begin_log_with(&mut out, &mut serializer)?;
    for Interval { tag, begun, elapsed, nanos } in all {
        let tag = Tag::new(tag).expect("names of phases have neither commas nor spaces");
        log.write_histogram(nanos, *begun, *elapsed, Some(tag)).map_err(|error| match error {
            IntervalLogWriterError::IoError(error) => error,
            IntervalLogWriterError::SerializeError(error) => io::Error::other(error.to_string()),
        })?;
    }
    Ok(())
}
