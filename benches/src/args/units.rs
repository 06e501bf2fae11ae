//! Ranges, times and rates as a user writes them.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use crate::run::Rate;
use crate::size::Size;

/// `A..B`, half-open, or `A` alone, which is that one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span<T>(pub(crate) Range<T>);

impl FromStr for Span<u32> {
    type Err = String;

    fn from_str(text: &str) -> Result<Span<u32>, String> {
        let number = |text: &str| {
            text.parse::<u32>().map_err(|_| format!("`{text}` is no number; write 10 or 1..10"))
        };
        span(text, number, |value| value.checked_add(1))
    }
}

impl FromStr for Span<u64> {
    type Err = String;

    fn from_str(text: &str) -> Result<Span<u64>, String> {
        let size = |text: &str| text.parse::<Size>().map(|size| size.0);
        span(text, size, |value| value.checked_add(1))
    }
}

fn span<T: PartialOrd + Copy>(
    text: &str,
    one: impl Fn(&str) -> Result<T, String>,
    next: impl Fn(T) -> Option<T>,
) -> Result<Span<T>, String> {
    let range = match text.split_once("..") {
        Some((start, end)) => one(start)?..one(end)?,
        None => {
            let start = one(text)?;
            start..next(start).ok_or("too large")?
        }
    };
    if range.start < range.end {
        return Ok(Span(range));
    }
    Err(format!("{text} is empty: A..B is all from A up to, but not including, B"))
}

/// A time: `250ms`, `10s`, `2m`, `1h`, `30us`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit_us: u64 = match unit {
            "us" => 1,
            "ms" => 1000,
            "s" => 1_000_000,
            "m" | "min" => 60_000_000,
            "h" => 3_600_000_000,
            _ => return Err("write 250ms, 10s, 2m or 1h".to_owned()),
        };
        let us = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_us));
        let us = us.ok_or("write 250ms, 10s, 2m or 1h")?;
        Ok(Time(Duration::from_micros(us)))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let rate = match text.strip_suffix("msg") {
            Some(messages) => messages.parse::<Size>().map(|count| Rate::Messages(count.0)),
            None => text.parse::<Size>().map(|bytes| Rate::Bytes(bytes.0)),
        };
        match rate {
            Ok(Rate::Bytes(0) | Rate::Messages(0)) => Err("0 a second sends nothing".to_owned()),
            Ok(rate) => Ok(rate),
            Err(error) => {
                Err(format!("{error}; a rate is 200M (bytes a second) or 50000msg (messages)"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open_and_one_value_is_a_range() {
        assert_eq!("7".parse(), Ok(Span(7_u32..8)));
        assert_eq!("1..10".parse(), Ok(Span(1_u32..10)));
        assert_eq!("64..4KiB".parse(), Ok(Span(64_u64..4096)));
        assert_eq!("1K".parse(), Ok(Span(1000_u64..1001)));
        for text in ["", "..", "1..", "..2", "2..2", "3..2", "x", "1..x", "1...2"] {
            assert!(text.parse::<Span<u32>>().is_err(), "{text}");
            assert!(text.parse::<Span<u64>>().is_err(), "{text}");
        }
        assert!("4294967295".parse::<Span<u32>>().is_err());
        assert!("18446744073709551615".parse::<Span<u64>>().is_err());
    }

    #[test]
    fn times_have_a_unit() {
        let time = |text: &str| text.parse::<Time>().map(|time| time.0.as_micros());
        assert_eq!(
            ["30us", "250ms", "10s", "2m", "2min", "1h", "0s"].map(|text| time(text).unwrap()),
            [30, 250_000, 10_000_000, 120_000_000, 120_000_000, 3_600_000_000, 0]
        );
        for text in ["", "5", "s", "-1s", "1.5s", "1d", "18446744073709551615h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_bytes_or_messages() {
        assert_eq!("200M".parse(), Ok(Rate::Bytes(200_000_000)));
        assert_eq!("50Kmsg".parse(), Ok(Rate::Messages(50_000)));
        for text in ["0", "0msg", "fast", "msg", "1/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}
