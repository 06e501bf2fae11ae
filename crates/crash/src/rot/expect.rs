//! What may be missing after a case, and no more than that.

use std::collections::BTreeSet;
use std::ops::Range;

use super::specimen::Partition;

/// What a case may do to one partition. By default nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Expect {
    /// Batches, by number, whose bytes are not in their place: not served, but named.
    pub(super) hurt: BTreeSet<usize>,
    /// Batches from this one on may be cut as a torn tail, which the opening reports: nothing calls
    /// them durable. Those that are whole go to quarantine.
    pub(super) cut_from: Option<usize>,
    /// The partition may refuse to be opened, with the reason: it takes a person to mend it.
    pub(super) may_refuse: bool,
    /// Nothing of the partition is left: it may begin again, which the opening reports.
    pub(super) may_begin_again: bool,
    /// Index entries and batches are not where they were: the whole log may need a walk, and polls
    /// may name what is wrong although all is served in the end.
    pub(super) may_warn: bool,
    /// A file went without a trace: what no mark calls durable may be missing without a word.
    pub(super) may_vanish: bool,
}

impl Expect {
    /// Bytes of a log that are not what they were.
    pub(super) fn bytes(partition: &Partition, segment: u64, bytes: Range<u64>) -> Expect {
        let mut expect = Expect::default();
        expect.harm(partition, segment, bytes);
        expect
    }

    pub(super) fn harm(&mut self, partition: &Partition, segment: u64, bytes: Range<u64>) {
        let all = partition.batches.iter().enumerate();
        let touched = all.clone().filter(|(_, batch)| {
            batch.segment == segment
                && batch.position < bytes.end
                && bytes.start < batch.position_end()
        });
        let touched: Vec<usize> = touched.map(|(number, _)| number).collect();
        let mark = partition.mark;
        let is_above =
            segment > mark.segment || segment == mark.segment && bytes.end > mark.position;
        if is_above {
            // The first batch that ends behind the place: also where only zeros were changed.
            let from = bytes.start.max(if segment == mark.segment { mark.position } else { 0 });
            let behind = all.clone().find(|(_, batch)| {
                batch.segment > segment || batch.segment == segment && batch.position_end() > from
            });
            let first = behind.map_or(partition.batches.len(), |(number, _)| number);
            self.cut_from = Some(self.cut_from.map_or(first, |cut| cut.min(first)));
        }
        self.hurt.extend(touched);
    }

    /// A whole log is not what it was, or not there.
    pub(super) fn log(&mut self, partition: &Partition, segment: u64) {
        self.harm(partition, segment, 0..u64::MAX);
    }

    pub(super) fn is_harmless(&self) -> bool {
        self.hurt.is_empty() && self.cut_from.is_none() && !self.may_warn
    }
}
