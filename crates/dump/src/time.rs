//! Microseconds since the Unix epoch as RFC 3339 in UTC, and back.

use std::fmt;

/// Prints as `2026-11-29T21:55:44.844316Z`. Years beyond 9999 print with all their digits: a u64
/// of microseconds reaches the year 586,524, and a damaged header may hold any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Utc(pub(crate) u64);

const US_PER_SECOND: u64 = 1_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
/// Days of 400 Gregorian years: after these the calendar repeats.
const DAYS_PER_ERA: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_FROM_MARCH_0: u64 = 719_468;

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / US_PER_SECOND;
        let (year, month, day) = civil(seconds / SECONDS_PER_DAY);
        let of_day = seconds % SECONDS_PER_DAY;
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let us = self.0 % US_PER_SECOND;
        let text =
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{us:06}Z");
        f.pad(&text)
    }
}

/// Year, month and day of a day counted from 1970-01-01.
///
/// Years are counted from March, so that the leap day is the last day of its year and every month
/// but the last has its usual length: month m (March = 0) begins on day (153 m + 2) / 5.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH_FROM_MARCH_0;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    // 1,460 days in four years but the last day of the fourth, 36,524 in a century but its last
    // leap day, 146,096 the very last day: take those out, then a year is 365 days.
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The day, counted from 1970-01-01, of a date in 1970 or later; the way back of [`civil`].
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_FROM_MARCH_0
}

/// Microseconds of `2026-11-29T20:22:24.844316Z`, of the same with an offset such as `+01:00`, or
/// of a date alone. What is finer than a microsecond is dropped. Nothing before 1970.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let mut rest = text;
    let (year, month, day) =
        (digits(&mut rest, 4)?, after(&mut rest, '-')?, after(&mut rest, '-')?);
    // Back and forth: a day that a month does not have comes back as another.
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let date = days(year, month, day);
    if civil(date) != (year, month, day) {
        return None;
    }
    let midnight = date * SECONDS_PER_DAY * US_PER_SECOND;
    if rest.is_empty() {
        return Some(midnight);
    }
    rest = rest.strip_prefix(['T', 't', ' '])?;
    let hour = digits(&mut rest, 2)?;
    let (minute, second) = (after(&mut rest, ':')?, after(&mut rest, ':')?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let fraction = fraction_us(&mut rest)?;
    let east = offset_seconds(rest)?;
    let of_day = ((hour * 60 + minute) * 60 + second) * US_PER_SECOND + fraction;
    (midnight + of_day).checked_add_signed(-east * US_PER_SECOND as i64)
}

/// Takes `count` digits off `rest`.
fn digits(rest: &mut &str, count: usize) -> Option<u64> {
    let (number, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
}

/// Takes `mark` and two digits off `rest`.
fn after(rest: &mut &str, mark: char) -> Option<u64> {
    *rest = rest.strip_prefix(mark)?;
    digits(rest, 2)
}

/// Takes a fraction of a second off `rest`, if there is one.
fn fraction_us(rest: &mut &str) -> Option<u64> {
    let Some(behind) = rest.strip_prefix('.') else { return Some(0) };
    let count = behind.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, behind) = behind.split_at(count);
    *rest = behind;
    let six: String = fraction.chars().chain("000000".chars()).take(6).collect();
    (count > 0).then(|| six.parse().ok())?
}

/// Seconds east of Greenwich of `Z`, `+01:00` or `-08:00`.
fn offset_seconds(mut rest: &str) -> Option<i64> {
    if matches!(rest, "Z" | "z") {
        return Some(0);
    }
    let sign = if rest.starts_with('-') { -1 } else { 1 };
    rest = rest.strip_prefix(['+', '-'])?;
    let (hours, minutes) = (digits(&mut rest, 2)?, after(&mut rest, ':')?);
    let ok = rest.is_empty() && hours < 24 && minutes < 60;
    ok.then_some(sign * (hours * 3600 + minutes * 60) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_parsed() {
        for us in [0, 951_782_399_999_999, 951_782_400_000_000, 1_795_982_544_844_316] {
            assert_eq!(parse(&Utc(us).to_string()), Some(us));
        }
        for day in 0..2 * DAYS_PER_ERA {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
        }
        let noon = 43_200 * US_PER_SECOND;
        for (text, us) in [
            ("1970-01-01", 0),
            ("1970-01-01T12:00:00Z", noon),
            ("1970-01-01 12:00:00.0000009z", noon),
            ("1970-01-01t12:00:00.25Z", noon + 250_000),
            ("1970-01-01T13:30:00+01:30", noon),
            ("1970-01-01T04:00:00-08:00", noon),
        ] {
            assert_eq!(parse(text), Some(us), "{text}");
        }
        for bad in [
            "",
            "1970",
            "1970-1-1",
            "1969-12-31",
            "2026-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-01-01T",
            "2026-01-01T24:00:00Z",
            "2026-01-01T10:00Z",
            "2026-01-01T10:00:00",
            "2026-01-01T10:00:00.Z",
            "2026-01-01T10:00:00+1",
            "2026-01-01T10:00:00Zx",
            "é026-01-01",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn known_instants() {
        assert_eq!(Utc(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(Utc(951_782_399_999_999).to_string(), "2000-02-28T23:59:59.999999Z");
        assert_eq!(Utc(951_782_400_000_000).to_string(), "2000-02-29T00:00:00.000000Z");
        assert_eq!(Utc(1_700_000_000_000_001).to_string(), "2023-11-14T22:13:20.000001Z");
        assert_eq!(Utc(4_107_542_400_000_000).to_string(), "2100-03-01T00:00:00.000000Z");
        assert_eq!(Utc(u64::MAX).to_string(), "586524-01-19T08:01:49.551615Z");
    }

    /// Every day of 800 years follows from the day before it by the rules of the calendar.
    #[test]
    fn each_day_follows_its_predecessor() {
        let leap =
            |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..2 * DAYS_PER_ERA {
            assert_eq!(civil(days), (year, month, day), "day {days}");
            let length = match month {
                2 => 28 + u64::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
