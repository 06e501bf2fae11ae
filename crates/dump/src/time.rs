//! Microseconds since the Unix epoch as RFC 3339 in UTC.

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

#[cfg(test)]
mod tests {
    use super::*;

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
