//! Figures as one SVG file: a panel for each histogram, and the rate over time.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use super::Stats;
use crate::time::Utc;
use crate::units::{Bytes, Micros};

const WIDTH: u64 = 900;
const PANEL: u64 = 190;
const PLOT_LEFT: u64 = 20;
const PLOT_WIDTH: u64 = WIDTH - 2 * PLOT_LEFT;
const PLOT_HEIGHT: u64 = 110;

/// A bar: its height as a count, the text below and the text that it shows when pointed at.
struct Bar {
    value: u64,
    label: String,
    hint: String,
}

/// Writes the file.
pub(super) fn write(stats: &Stats, file: File) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    let panels: Vec<_> = stats.histograms().into_iter().filter(|h| h.3.count > 0).collect();
    let height = 60 + (panels.len() as u64 + 1) * PANEL;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
    )?;
    let title =
        format!("{} batches, {} messages, {}", stats.batches, stats.messages, Bytes(stats.bytes));
    text(&mut out, PLOT_LEFT, 24, 15, &title)?;
    if let Some((first, last)) = stats.times {
        text(&mut out, PLOT_LEFT, 42, 11, &format!("{} to {}", Utc(first), Utc(last)))?;
    }
    let mut top = 60;
    for (_, name, unit, histogram) in panels {
        let say = |value| unit.text(value);
        let title = format!(
            "{name}: mean {}, p50 {}, p90 {}, p99 {}, {} to {}",
            say(histogram.mean()),
            say(histogram.percentile(50)),
            say(histogram.percentile(90)),
            say(histogram.percentile(99)),
            say(histogram.min),
            say(histogram.max)
        );
        let rows = histogram.powers().into_iter();
        let bars = rows.map(|(from, to, count)| Bar {
            value: count,
            label: say(from),
            hint: format!("{} to {}: {count}", say(from), say(to)),
        });
        panel(&mut out, top, &title, &bars.collect::<Vec<_>>())?;
        top += PANEL;
    }
    let (start, width) = (stats.rate.start().unwrap_or(0), stats.rate.width_us());
    let rates = stats.rate.rates();
    let most = rates.iter().max().copied().unwrap_or(0);
    let title = format!("bytes a second, up to {}, each bar {}", Bytes(most), Micros(width));
    let bars = rates.into_iter().zip(0..).map(|(value, number)| Bar {
        value,
        label: String::new(),
        hint: format!("{}: {}/s", Utc(start.saturating_add(number * width)), Bytes(value)),
    });
    panel(&mut out, top, &title, &bars.collect::<Vec<_>>())?;
    writeln!(out, "</svg>")?;
    out.flush()
}

fn panel(out: &mut impl Write, top: u64, title: &str, bars: &[Bar]) -> io::Result<()> {
    text(out, PLOT_LEFT, top + 14, 12, title)?;
    let (base, most) = (top + 24 + PLOT_HEIGHT, bars.iter().map(|bar| bar.value).max());
    let most = most.unwrap_or(1).max(1);
    let step = PLOT_WIDTH / (bars.len() as u64).max(1);
    for (bar, number) in bars.iter().zip(0..) {
        let height = (u128::from(bar.value) * u128::from(PLOT_HEIGHT) / u128::from(most)) as u64;
        let height = height.max(u64::from(bar.value > 0));
        let (x, y) = (PLOT_LEFT + number * step, base - height);
        let width = step.saturating_sub(2).max(1);
        writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"#3465a4\">\
             <title>{}</title></rect>",
            bar.hint
        )?;
        // Labels that would overlap are left out.
        if !bar.label.is_empty() && (number * step) % 60 < step {
            text(out, x, base + 14, 10, &bar.label)?;
        }
    }
    writeln!(
        out,
        "<line x1=\"{PLOT_LEFT}\" y1=\"{base}\" x2=\"{}\" y2=\"{base}\" stroke=\"#888888\"/>",
        PLOT_LEFT + PLOT_WIDTH
    )
}

/// A line of text: ours, without anything that XML would have to escape.
fn text(out: &mut impl Write, x: u64, y: u64, size: u64, text: &str) -> io::Result<()> {
    writeln!(out, "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\">{text}</text>")
}
