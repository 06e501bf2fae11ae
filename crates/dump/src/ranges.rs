//! Half-open ranges as they are typed: `A..B`, `A..`, `..B`; offsets also as one number.

use std::ops::Range;

use crate::time;

/// Offsets from `start` up to, not including, `end`. `u64::MAX` as the end leaves nothing out: no
/// message has that offset.
pub(crate) fn offsets(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| {
        text.parse::<u64>().map_err(|_| format!("\"{text}\" is not an offset: give digits only"))
    };
    match text.split_once("..") {
        None => {
            let one = number(text)?;
            Ok(one..one.saturating_add(1))
        }
        Some((start, end)) => ordered(open(start, 0, number)?..open(end, u64::MAX, number)?),
    }
}

/// A moment as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Microseconds since 1970.
    At(u64),
    /// So many microseconds before the program was started.
    Ago(u64),
}

/// A range of moments as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moments {
    start: Moment,
    end: Moment,
}

impl Moments {
    /// The range in microseconds, `now` being the present.
    pub(crate) fn resolve(self, now: u64) -> Range<u64> {
        self.start.resolve(now)..self.end.resolve(now)
    }
}

impl Moment {
    /// The moment in microseconds, `now` being the present.
    pub(crate) fn resolve(self, now: u64) -> u64 {
        match self {
            Moment::At(us) => us,
            Moment::Ago(us) => now.saturating_sub(us),
        }
    }
}

/// A range of times.
pub(crate) fn moments(text: &str) -> Result<Moments, String> {
    let Some((start, end)) = text.split_once("..") else {
        return Err("a range of times is A..B, A.. or ..B".to_string());
    };
    let start = open(start, Moment::At(0), moment)?;
    let end = open(end, Moment::At(u64::MAX), moment)?;
    if let (Moment::At(start), Moment::At(end)) = (start, end) {
        ordered(start..end)?;
    }
    Ok(Moments { start, end })
}

/// A moment: RFC 3339 (also a date alone), `-90s`, `-15m`, `-1h`, `-7d`, `now`, or microseconds.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    const US: u64 = 1_000_000;
    if let Some(back) = text.strip_prefix('-') {
        let digits = back.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &back[digits.len()..] {
            "us" => 1,
            "ms" => 1000,
            "s" => US,
            "m" | "min" => 60 * US,
            "h" => 3600 * US,
            "d" => 86_400 * US,
            _ => return Err(format!("\"{text}\": units are us, ms, s, m, h and d")),
        };
        let count: u64 = digits.parse().map_err(|_| format!("\"{text}\" has no number"))?;
        return Ok(Moment::Ago(count.saturating_mul(unit)));
    }
    if text == "now" {
        return Ok(Moment::Ago(0));
    }
    if let Ok(us) = text.parse() {
        return Ok(Moment::At(us));
    }
    time::parse(text).map(Moment::At).ok_or_else(|| {
        format!(
            "\"{text}\" is not a time: give 2026-11-29T20:22:24Z, a date, -1h, now, or microseconds"
        )
    })
}

/// One end of a range, which may be left open.
fn open<T>(text: &str, open: T, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
    if text.is_empty() { Ok(open) } else { parse(text) }
}

fn ordered(range: Range<u64>) -> Result<Range<u64>, String> {
    if range.start > range.end {
        return Err(format!("{} is after {}", range.start, range.end));
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_offsets() {
        assert_eq!(offsets("3..7"), Ok(3..7));
        assert_eq!(offsets("3.."), Ok(3..u64::MAX));
        assert_eq!(offsets("..7"), Ok(0..7));
        assert_eq!(offsets(".."), Ok(0..u64::MAX));
        assert_eq!(offsets("7"), Ok(7..8));
        assert_eq!(offsets("7..7"), Ok(7..7));
        for bad in ["", "x", "-1", "7..3", "1..2..3", "1.5", "0x10..", "18446744073709551616"] {
            assert!(offsets(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_of_times() {
        let at = |text| moments(text).map(|range| range.resolve(10_000_000_000));
        assert_eq!(at("1970-01-01T00:00:01Z.."), Ok(1_000_000..u64::MAX));
        assert_eq!(at("..1970-01-01T01:00:01.5+01:00"), Ok(0..1_500_000));
        assert_eq!(at("-1h..-90s"), Ok(6_400_000_000..9_910_000_000));
        assert_eq!(at("17..now"), Ok(17..10_000_000_000));
        assert_eq!(at("-9d.."), Ok(0..u64::MAX));
        assert_eq!(at("1970-01-02..1970-01-03"), Ok(86_400_000_000..172_800_000_000));
        for bad in ["", "17", "-1..", "-1y..", "-h..", "yesterday..", "20..10", "-1h..x"] {
            assert!(moments(bad).is_err(), "{bad}");
        }
    }
}
