//! Figures for people: bars of blocks.

use std::io;

use super::{Stats, Unit};
use crate::json::Out;
use crate::style::{Colour, Style};
use crate::time::Utc;
use crate::units::{Bytes, Micros};

const BAR_CELLS: u64 = 50;
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Writes everything.
pub(super) fn write(stats: &Stats, out: Out<'_>, style: Style) -> io::Result<()> {
    summary(stats, out, style)?;
    for (_, title, unit, histogram) in stats.histograms() {
        if histogram.count == 0 {
            continue;
        }
        let text = |value| unit.text(value);
        writeln!(
            out,
            "\n{}  mean {}, p50 {}, p90 {}, p99 {}, {} to {}",
            style.paint(Colour::Title, title),
            text(histogram.mean()),
            text(histogram.percentile(50)),
            text(histogram.percentile(90)),
            text(histogram.percentile(99)),
            text(histogram.min),
            text(histogram.max),
        )?;
        let rows = histogram.powers();
        let most = rows.iter().map(|row| row.2).max().unwrap_or(1);
        for (from, _, count) in rows {
            let bar = style.paint(Colour::Size, bar(count, most));
            writeln!(out, "  {:>12} {bar} {count}", text(from))?;
        }
    }
    rate(stats, out, style)
}

fn summary(stats: &Stats, out: Out<'_>, style: Style) -> io::Result<()> {
    let title = format!("{} batches, {} messages", stats.batches, stats.messages);
    write!(
        out,
        "{}, {} ({} bytes)",
        style.paint(Colour::Title, title),
        Bytes(stats.bytes),
        stats.bytes
    )?;
    if let Some((first, last)) = stats.offsets {
        write!(out, ", offsets {first} to {last}")?;
    }
    writeln!(out)?;
    if let Some((first, last)) = stats.times {
        writeln!(out, "  {} to {} ({})", Utc(first), Utc(last), Micros(last - first))?;
    }
    if stats.payload_bytes > 0 {
        let share = |bytes: u64| bytes as f64 * 100.0 / stats.bytes.max(1) as f64;
        writeln!(
            out,
            "  payloads {:.1} %, user headers {:.1} %; entropy of payloads {:.2} bits a byte",
            share(stats.payload_bytes),
            share(stats.user_header_bytes),
            stats.entropy_bits(),
        )?;
    }
    if stats.time_went_back > 0 {
        writeln!(out, "  {} batches stamped before the one in front", stats.time_went_back)?;
    }
    if stats.from_the_future > 0 {
        writeln!(out, "  {} messages stamped before their producer's time", stats.from_the_future)?;
    }
    Ok(())
}

fn rate(stats: &Stats, out: Out<'_>, style: Style) -> io::Result<()> {
    let rates = stats.rate.rates();
    let Some(most) = rates.iter().max().filter(|most| **most > 0) else { return Ok(()) };
    let title = style.paint(Colour::Title, "bytes a second");
    let width = Micros(stats.rate.width_us());
    writeln!(out, "\n{title}  up to {}, each column {width}", Bytes(*most))?;
    let column = |rate: &u64| match u128::from(*rate) * 8 / u128::from(*most) {
        0 if *rate == 0 => ' ',
        height => HEIGHTS[(height as usize).clamp(1, 8) - 1],
    };
    let columns: String = rates.iter().map(column).collect();
    writeln!(out, "  {}", style.paint(Colour::Size, columns))
}

/// A bar of up to 50 cells, in eighths; something is visible of anything.
fn bar(count: u64, most: u64) -> String {
    let eighths = u128::from(count) * u128::from(BAR_CELLS * 8) / u128::from(most.max(1));
    let eighths = (eighths as usize).max(usize::from(count > 0));
    let mut bar = EIGHTHS[7].to_string().repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8 - 1]);
    }
    bar
}

impl Unit {
    /// The word on an axis.
    pub(super) fn word(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::Micros => "microseconds",
            Unit::Messages => "messages",
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn bars_are_as_long_as_their_count() {
        assert_eq!(super::bar(0, 10), "");
        assert_eq!(super::bar(10, 10), "█".repeat(50));
        assert_eq!(super::bar(1, 1_000_000), "▏");
        assert_eq!(super::bar(101, 1000), "█████");
        assert_eq!(super::bar(u64::MAX, u64::MAX).chars().count(), 50);
    }
}
