//! The time series as CSV: one row an interval of a phase of a round. Units stand in the names.

use std::io::{self, Write};

use super::Report;
use crate::stats::mb_per_s;

const HEADER: &str = "phase,round,start_s,length_s,bytes,messages,operations,mb_per_s,\
                      messages_per_s,operations_per_s";

impl Report<'_> {
    /// Writes all rows, in the order in which the phases ran.
    pub(crate) fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{HEADER}")?;
        let rounds = self.outcome.phases.iter().flat_map(|phase| {
            phase.rounds.iter().enumerate().map(move |(number, round)| (phase.name, number, round))
        });
        let mut rounds: Vec<_> = rounds.collect();
        rounds.sort_by_key(|(_, _, round)| round.begun);
        for (name, number, round) in rounds {
            for (begin, length, slot) in round.series.intervals(round.elapsed) {
                let seconds = length.as_secs_f64();
                writeln!(
                    out,
                    "{name},{number},{:.6},{seconds:.6},{},{},{},{:.3},{:.3},{:.3}",
                    (round.begun + begin).as_secs_f64(),
                    slot.bytes,
                    slot.messages,
                    slot.operations,
                    mb_per_s(slot.bytes, length),
                    slot.messages as f64 / seconds,
                    slot.operations as f64 / seconds,
                )?;
            }
        }
        Ok(())
    }
}
