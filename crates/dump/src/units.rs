//! Numbers for people.

use std::fmt;

/// A number of bytes, as `17 B`, `705.2 kB`, `1.07 GB`: three digits and powers of 1,000.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            bytes @ 0..1000 => format!("{bytes} B"),
            bytes => scaled(bytes as f64 / 1000.0, &["kB", "MB", "GB", "TB", "PB", "EB"], 1000.0),
        };
        f.pad(&text)
    }
}

/// A span of time in microseconds, as `17 us`, `2.50 ms`, `1.20 h`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Micros(pub(crate) u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: f64 = 1_000_000.0;
        let us = self.0 as f64;
        let text = match self.0 {
            us @ 0..1000 => format!("{us} us"),
            1000..60_000_000 => scaled(us / 1000.0, &["ms", "s"], 1000.0),
            60_000_000..3_600_000_000 => digits(us / SECOND / 60.0, "min"),
            3_600_000_000..86_400_000_000 => digits(us / SECOND / 3600.0, "h"),
            _ => digits(us / SECOND / 86_400.0, "d"),
        };
        f.pad(&text)
    }
}

fn scaled(mut value: f64, units: &[&str], factor: f64) -> String {
    let mut unit = 0;
    // 999.95 would print as 1000.0.
    while value >= factor - 0.05 && unit + 1 < units.len() {
        value /= factor;
        unit += 1;
    }
    digits(value, units[unit])
}

/// Three digits.
fn digits(value: f64, unit: &str) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2} {unit}"),
        v if v < 99.95 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_everywhere() {
        let bytes = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_996, "10.0 kB"),
            (705_197, "705 kB"),
            (999_960, "1.00 MB"),
            (1 << 30, "1.07 GB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (value, text) in bytes {
            assert_eq!(Bytes(value).to_string(), text);
        }
        let spans = [
            (0, "0 us"),
            (1_500, "1.50 ms"),
            (59_999_999, "60.0 s"),
            (90_000_000, "1.50 min"),
            (3_600_000_000, "1.00 h"),
            (172_800_000_000, "2.00 d"),
        ];
        for (value, text) in spans {
            assert_eq!(Micros(value).to_string(), text);
        }
    }
}
