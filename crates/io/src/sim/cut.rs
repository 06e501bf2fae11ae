//! How a power cut chooses: what of the un-synced changes is kept, and at which size writes tear.

use std::ops::Range;

use super::Rng;
use crate::BLOCK;

/// A power cut tears writes at this size at the finest.
pub(super) const SECTOR: usize = 512;

/// How one cut treats one file or the directory tree. Pure chance would almost never lose
/// everything or keep everything of a long list, and both ends are where protocols break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mood {
    keep: Keep,
    /// Writes tear at this many bytes: 512 or 4,096.
    unit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Nothing,
    Everything,
    /// Each change on its own, with this many chances in eight.
    Some(u64),
}

impl Mood {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let keep = match rng.below(8) {
            0 => Keep::Nothing,
            1 => Keep::Everything,
            _ => Keep::Some(rng.between(1, 7)),
        };
        Mood { keep, unit: if rng.chance(1, 2) { SECTOR } else { BLOCK } }
    }

    /// Whether one change is kept.
    pub(super) fn keeps(self, rng: &mut Rng) -> bool {
        match self.keep {
            Keep::Nothing => false,
            Keep::Everything => true,
            Keep::Some(eighths) => rng.chance(eighths, 8),
        }
    }

    /// How many of `count` ordered changes are kept, from the first.
    pub(super) fn prefix(self, rng: &mut Rng, count: usize) -> usize {
        match self.keep {
            Keep::Nothing => 0,
            Keep::Everything => count,
            Keep::Some(_) => rng.index(count + 1),
        }
    }

    /// Which of `count` versions a sector shows: 0 is the durable one, `count` the newest. Favours
    /// the two ends, as the middle ones need a device that wrote early and then lost the rewrite.
    pub(super) fn version(self, rng: &mut Rng, count: usize) -> usize {
        match self.keep {
            Keep::Nothing => 0,
            Keep::Everything => count,
            Keep::Some(_) if rng.chance(1, 4) => rng.index(count + 1),
            Keep::Some(eighths) => {
                if rng.chance(eighths, 8) {
                    count
                } else {
                    0
                }
            }
        }
    }

    /// Calls `each` with the byte range of every unit of a block that is old or new as a whole.
    pub(super) fn each_unit(self, rng: &mut Rng, mut each: impl FnMut(Range<usize>, &mut Rng)) {
        for start in (0..BLOCK).step_by(self.unit) {
            each(start..start + self.unit, rng);
        }
    }
}
