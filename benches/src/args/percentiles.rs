//! Which percentiles the text tells.

use std::str::FromStr;

use crate::latency::Latency;

/// Most of them: they stand on one line.
const COUNT_MAX: usize = 12;

/// Percentiles in rising order, each from 0 up to, but not including, 100: that one is the maximum,
/// which is always told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Percentiles(Vec<f64>);

impl Default for Percentiles {
    fn default() -> Percentiles {
        Percentiles(vec![50.0, 99.0, 99.9])
    }
}

impl FromStr for Percentiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Percentiles, String> {
        let one = |text: &str| {
            let percent = text.trim().parse::<f64>().ok().filter(|one| (0.0..100.0).contains(one));
            percent.ok_or_else(|| format!("`{text}` is no number from 0 to below 100"))
        };
        let all = text.split(',').map(one).collect::<Result<Vec<_>, _>>()?;
        if !all.is_sorted_by(|a, b| a < b) {
            return Err("write each once, the smallest first: 50,90,99,99.9".to_owned());
        }
        if all.len() > COUNT_MAX {
            return Err(format!("at most {COUNT_MAX} of them"));
        }
        Ok(Percentiles(all))
    }
}

impl Percentiles {
    /// `p50 120, p99 480, max 900 us`.
    pub(crate) fn line(&self, latency: &Latency) -> String {
        let one = |percent: &f64| format!("p{percent} {:.0}, ", latency.percentile_us(*percent));
        let all: String = self.0.iter().map(one).collect();
        format!("{all}max {:.0} us", latency.max_us())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn they_are_told_as_they_were_asked_for() {
        let mut latency = Latency::default();
        (1..=1000).for_each(|us| latency.record(Duration::from_micros(us)));
        let line = |text: &str| text.parse().map(|asked: Percentiles| asked.line(&latency));
        assert_eq!(Percentiles::default().line(&latency), line("50,99,99.9").unwrap());
        assert_eq!(line("0, 25,99.95").unwrap(), "p0 1, p25 250, p99.95 1000, max 1000 us");
    }

    #[test]
    fn nonsense_is_refused() {
        for (text, word) in [
            ("", "`` is no number"),
            ("50,", "`` is no number"),
            ("p50", "`p50` is no number"),
            ("100", "below 100"),
            ("-1", "from 0"),
            ("NaN", "no number"),
            ("99,50", "smallest first"),
            ("50,50", "each once"),
            ("1,2,3,4,5,6,7,8,9,10,11,12,13", "at most 12"),
        ] {
            let error = text.parse::<Percentiles>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
