//! Where the disk lied or rotted: what may be missing there, and no more than that.
//!
//! Damage is known as base offsets of the batches whose bytes it touched.

use std::collections::BTreeSet;

/// A poll's answer that names damage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) segment: u64,
    pub(crate) position: u64,
    pub(crate) resume: Option<u64>,
}

#[derive(Default)]
pub(super) struct Damage {
    touched: BTreeSet<u64>,
    /// Everything from here on may be cut, as damage above the mark is a torn tail.
    cut_from: Option<u64>,
}

impl Damage {
    pub(super) fn has_any(&self) -> bool {
        !self.touched.is_empty() || self.cut_from.is_some()
    }

    /// What is still owed of `promised`.
    pub(super) fn owed(&self, promised: u64) -> u64 {
        self.cut_from.map_or(promised, |from| promised.min(from))
    }

    /// Whether offsets `from..to` may be missing.
    pub(super) fn explains_hole(&self, from: u64, to: u64) -> bool {
        self.touched.range(from..to).next().is_some() || self.cut_from.is_some_and(|cut| cut < to)
    }
}

impl super::Oracle {
    /// Whether an opening may find damage.
    pub(crate) fn expects_damage(&self) -> bool {
        self.damage.has_any()
    }

    /// Whether a poll may say this.
    pub(crate) fn may_report(&self, _reported: Reported) -> bool {
        self.damage.has_any()
    }
}
