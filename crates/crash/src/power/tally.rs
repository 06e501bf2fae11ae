//! What rounds have done, counted.

use std::fmt;

use crate::judge::Verdict;

/// What rounds have done, summed up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Recordings of an engine at work.
    pub recordings: u64,
    /// Answers in them.
    pub answers: u64,
    /// Images that were judged.
    pub images: u64,
    /// Those of them that were cut while an image was being judged.
    pub nested: u64,
    /// Writes that no flush covered, in all images.
    pub loose: u64,
    /// Batches that were read back.
    pub batches: u64,
    /// Partitions in which recovery found something above the durable mark.
    pub recovered: u64,
    /// Bytes of interrupted writes that recovery cut.
    pub cut_bytes: u64,
    /// Files that went to quarantine.
    pub quarantined: u64,
}

impl Tally {
    /// An image was judged.
    pub(super) fn add(&mut self, verdict: &Verdict) {
        let Verdict { batches, recovered, cut_bytes, quarantined } = verdict;
        self.batches += batches;
        self.recovered += recovered;
        self.cut_bytes += cut_bytes;
        self.quarantined += quarantined;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { recordings, answers, images, nested, loose, .. } = self;
        let Tally { batches, recovered, cut_bytes, quarantined, .. } = self;
        write!(
            f,
            "{recordings} recordings with {answers} promises; {images} images, {nested} of them"
        )?;
        write!(
            f,
            " cut while another was judged, {loose} loose writes in all; {batches} batches read,"
        )?;
        write!(
            f,
            " {recovered} partitions recovered, {cut_bytes} bytes cut, {quarantined} files in"
        )?;
        f.write_str(" quarantine")
    }
}

/// The last line of a process that judged, and found everything in order.
pub fn verdict_line(verdict: &Verdict) -> String {
    let Verdict { batches, recovered, cut_bytes, quarantined } = verdict;
    format!("verdict {batches} {recovered} {cut_bytes} {quarantined}")
}

/// Reads what [`verdict_line`] wrote; `None`: another line.
pub(super) fn parse_verdict(line: &str) -> Option<Verdict> {
    let numbers = line.strip_prefix("verdict ")?.split(' ').map(str::parse);
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
    let [batches, recovered, cut_bytes, quarantined] = numbers[..] else { return None };
    Some(Verdict { batches, recovered, cut_bytes, quarantined })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_as_it_was_written() {
        let verdict = Verdict { batches: 1, recovered: 2, cut_bytes: 3, quarantined: u64::MAX };
        assert_eq!(parse_verdict(&verdict_line(&verdict)), Some(verdict));
        for other in ["", "verdict", "verdict 1 2 3", "verdict 1 2 3 4 5", "verdict 1 2 3 x"] {
            assert_eq!(parse_verdict(other), None, "{other}");
        }
    }
}
