//! Which of the oldest segments go: by age, by size, or so many of them. Never the active one, and
//! never what a consumer has not read yet.

use std::time::Duration;

use corelog_io::{Clock, Platform};

use crate::read::latest_foreign;
use crate::{Answer, Partition, SealedSegment, TrimError, Trimmed};

/// Most segments that one pass drops: the rest follows with the next.
const SEGMENTS_A_PASS: usize = 16;

/// Until when a partition keeps its messages. The default keeps them for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Sealed segments whose last batch is older than this may go.
    pub expiry: Option<Duration>,
    /// The oldest sealed segments may go while all of them have more bytes than this.
    pub sealed_bytes: Option<u64>,
}

impl Retention {
    /// True where nothing is ever dropped.
    pub fn keeps_all(&self) -> bool {
        self.expiry.is_none() && self.sealed_bytes.is_none()
    }
}

impl<P: Platform, A: Answer> Partition<P, A> {
    /// Drops what `rule` lets go, oldest first, and what a trim does ([`Partition::trim`]): up to 16
    /// segments, none of which holds a message above the lowest offset that a consumer or group
    /// has stored.
    ///
    /// # Errors
    /// As [`Partition::trim`].
    pub async fn retain(&self, rule: Retention) -> Result<Trimmed, TrimError> {
        if rule.keeps_all() {
            return Ok(self.nothing_trimmed());
        }
        let sealed = self.sealed_segments().await;
        let now_us = self.inner.shared.platform().clock().now_us();
        let expired = self.expired(&sealed, rule.expiry, now_us).await;
        let over = over(&sealed, rule.sealed_bytes);
        self.drop_oldest(&sealed, expired.max(over.min(SEGMENTS_A_PASS))).await
    }

    /// Drops the `count` oldest sealed segments, or as many as there are and consumers have read.
    ///
    /// # Errors
    /// As [`Partition::trim`].
    pub async fn delete_segments(&self, count: u32) -> Result<Trimmed, TrimError> {
        let sealed = self.sealed_segments().await;
        self.drop_oldest(&sealed, count as usize).await
    }

    /// How many of the oldest have expired. Times of another server may go back: what its segment
    /// ends with says nothing about the batches before, so all of them are looked at before it
    /// goes. That reads the segment, once; one a pass.
    async fn expired(
        &self,
        sealed: &[SealedSegment],
        expiry: Option<Duration>,
        now_us: u64,
    ) -> usize {
        let foreign = &self.inner.foreign;
        let by_end = expired(sealed, expiry, now_us).min(SEGMENTS_A_PASS);
        let mut has_walked = false;
        for (place, segment) in sealed[..by_end].iter().enumerate() {
            if segment.first_offset >= foreign.end() {
                break;
            }
            let is_new = foreign.latest(segment.first_offset).is_none();
            if is_new && std::mem::replace(&mut has_walked, true) {
                return place;
            }
            let latest = latest_foreign(&self.inner, segment.first_offset).await;
            // What cannot be looked at now stays for now.
            let Ok(latest) = latest else { return place };
            let last_timestamp = segment.last_timestamp.max(latest);
            if expired(&[SealedSegment { last_timestamp, ..*segment }], expiry, now_us) == 0 {
                return place;
            }
        }
        by_end
    }

    async fn drop_oldest(
        &self,
        sealed: &[SealedSegment],
        count: usize,
    ) -> Result<Trimmed, TrimError> {
        match sealed[..count.min(sealed.len())].last() {
            Some(last) => self.trim_read(last.end_offset).await,
            None => Ok(self.nothing_trimmed()),
        }
    }

    fn nothing_trimmed(&self) -> Trimmed {
        Trimmed { start: self.watermarks().start(), segments: 0 }
    }
}

/// How many of the oldest have expired. One with a younger batch keeps those behind it.
fn expired(sealed: &[SealedSegment], expiry: Option<Duration>, now_us: u64) -> usize {
    let Some(expiry) = expiry else { return 0 };
    let expiry_us = u64::try_from(expiry.as_micros()).unwrap_or(u64::MAX);
    // A time of 0 says nothing about an age.
    let is_old = |segment: &&SealedSegment| {
        segment.last_timestamp != 0
            && segment.last_timestamp.checked_add(expiry_us).is_some_and(|end| end <= now_us)
    };
    sealed.iter().take_while(is_old).count()
}

/// How many of the oldest are above the budget. One whose length nobody knows counts as empty.
fn over(sealed: &[SealedSegment], budget: Option<u64>) -> usize {
    let Some(budget) = budget else { return 0 };
    let mut all: u64 = sealed.iter().filter_map(|segment| segment.bytes).sum();
    let goes = |segment: &&SealedSegment| {
        let is_over = all > budget;
        all -= segment.bytes.unwrap_or(0);
        is_over
    };
    sealed.iter().take_while(goes).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of ten messages; bytes and last time of each.
    fn sealed(segments: &[(Option<u64>, u64)]) -> Vec<SealedSegment> {
        let segment =
            |(number, (bytes, last_timestamp)): (u64, &(Option<u64>, u64))| SealedSegment {
                first_offset: number * 10,
                end_offset: number * 10 + 10,
                bytes: *bytes,
                last_timestamp: *last_timestamp,
            };
        (0..).zip(segments).map(segment).collect()
    }

    #[test]
    fn age_counts_from_the_last_batch_and_stops_at_the_first_young_one() {
        let segments = sealed(&[(None, 10), (None, 20), (None, 90), (None, 30)]);
        for (expiry, now, count) in
            [(10, 19, 0), (10, 20, 1), (10, 30, 2), (10, 99, 2), (10, 100, 4), (u64::MAX, 9, 0)]
        {
            let expiry = Some(Duration::from_micros(expiry));
            assert_eq!(expired(&segments, expiry, now), count, "{expiry:?} at {now}");
        }
        assert_eq!(expired(&segments, None, u64::MAX), 0);
        let zero = sealed(&[(None, 0), (None, 1)]);
        assert_eq!(expired(&zero, Some(Duration::from_micros(1)), 1000), 0);
        assert_eq!(expired(&segments, Some(Duration::MAX), u64::MAX), 0);
    }

    #[test]
    fn size_drops_while_more_than_the_budget_is_left() {
        let segments = sealed(&[(Some(5), 1), (None, 1), (Some(7), 1), (Some(1), 1)]);
        for (budget, count) in [(13, 0), (12, 1), (8, 1), (7, 3), (1, 3), (0, 4)] {
            assert_eq!(over(&segments, Some(budget)), count, "{budget}");
        }
        assert_eq!(over(&segments, None), 0);
    }
}
