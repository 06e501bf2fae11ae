//! The report for people: two or three lines a phase.

use std::io::{self, Write};

use super::Report;
use crate::account::Used;
use crate::ceiling::sweep::describe;
use crate::latency::Latency;
use crate::results::{Figure, Phase};
use crate::run::Ended;
use crate::size;

impl Report<'_> {
    /// The report for people.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Report { settings, machine, outcome, .. } = self;
        writeln!(out, "{}", machine.line())?;
        writeln!(
            out,
            "{}, rounds {}{}",
            settings.line(outcome.batch_bytes),
            outcome.rounds,
            ended_words(outcome.ended),
        )?;
        if let Some(granted) = outcome.granted {
            writeln!(
                out,
                "ceiling: raw rings {}, requests {} x {} each, O_DIRECT, fresh allocated files; {}",
                settings.shape.rings,
                settings.shape.depth,
                size::human_block(settings.shape.block as u64),
                describe(granted),
            )?;
        }
        writeln!(out)?;
        for phase in &outcome.phases {
            self.print_phase(out, phase)?;
        }
        for note in outcome.notes.iter().chain(&self.doubts()) {
            writeln!(out, "\n{note}")?;
        }
        Ok(())
    }

    fn print_phase(&self, out: &mut dyn Write, phase: &Phase) -> io::Result<()> {
        let name = phase.name;
        let Some(engine) = phase.engine() else {
            return writeln!(out, "{name:<8} not run");
        };
        let interval = phase.ratio_interval();
        let unit = phase.figure.unit();
        match (phase.ceiling_figure(), phase.ratio()) {
            (Some(ceiling), Some(ratio)) if phase.figure.lower_is_better() => writeln!(
                out,
                "{name:<8} {engine:.0} {unit}, {ratio:.2} x the ceiling ({}: {ceiling:.0} {unit})\
                 {}; {:.1} % of the ceiling",
                self.ceiling_words(phase),
                interval_words(interval, |value| format!("{value:.2}")),
                ratio.recip() * 100.0,
            )?,
            (Some(ceiling), Some(ratio)) => writeln!(
                out,
                "{name:<8} {engine:.0} {unit}, {:.1} % of the ceiling ({}: {ceiling:.0} {unit}){}",
                ratio * 100.0,
                phase.ceiling,
                interval_words(interval, |value| format!("{:.1} %", value * 100.0)),
            )?,
            _ => writeln!(out, "{name:<8} {engine:.0} {unit}, the ceiling was not reached")?,
        }
        self.print_latency(out, phase)?;
        print_usage(out, phase)
    }
}

impl Report<'_> {
    /// What a phase is held against; for the synced write, by which method.
    fn ceiling_words(&self, phase: &Phase) -> String {
        let (method, synced) = self.outcome.synced.best();
        if phase.name == "durable" && synced.count() > 0 {
            return format!("{}, {}", phase.ceiling, method.name());
        }
        phase.ceiling.to_owned()
    }

    /// How long operations took, and what an answer meant.
    fn print_latency(&self, out: &mut dyn Write, phase: &Phase) -> io::Result<()> {
        let line = |out: &mut dyn Write, latency: &Latency, what: &str| {
            let (line, count) = (self.percentiles.line(latency), latency.count());
            // The count is how much a percentile is worth.
            writeln!(out, "{:<8} {line} {what} ({count} of them)", "")
        };
        let Some(response) = phase.response() else {
            return line(out, &phase.service(), phase.operation);
        };
        line(out, &response, &format!("{}, from its intended start", phase.operation))?;
        line(out, &phase.service(), "of it from its real start (what a closed loop would show)")
    }
}

/// What the phase cost, as far as it is known.
fn print_usage(out: &mut dyn Write, phase: &Phase) -> io::Result<()> {
    let Some(used) = Used::merged(phase.rounds.iter().map(|round| &round.used)) else {
        return Ok(());
    };
    let mut words = Vec::new();
    if let (Some(percent), Some(cpu)) = (used.cpu_percent(), used.cpu()) {
        let operations = phase.service().count().max(1);
        let cost = match used.cpu_s_per_gb(phase.bytes()) {
            Some(per_gb) if phase.figure == Figure::MbPerS => format!("{per_gb:.2} s/GB"),
            _ => format!("{:.0} us an operation", cpu.as_secs_f64() * 1e6 / operations as f64),
        };
        words.push(format!("CPU {percent:.0} % of a core, {cost}"));
    }
    if !phase.answered_when.is_empty()
        && let Some(times) = used.write_amplification(phase.bytes())
    {
        words.push(format!("{times:.2} bytes to the device a byte appended"));
    }
    if let Some(peak) = used.peak_rss_bytes {
        words.push(format!("peak memory {}", size::human(peak)));
    }
    if words.is_empty() {
        return Ok(());
    }
    writeln!(out, "{:<8} {}", "", words.join("; "))
}

fn interval_words(interval: Option<(f64, f64)>, one: impl Fn(f64) -> String) -> String {
    match interval {
        Some((low, high)) => format!(", 95 % interval {} to {}", one(low), one(high)),
        None => String::new(),
    }
}

fn ended_words(ended: Ended) -> &'static str {
    match ended {
        Ended::Complete => "",
        Ended::TimeLimit => " (then the time was up; --rounds or --total sets it aside)",
        Ended::Interrupted => " (then stopped)",
    }
}
