//! How much of the active file is allocated, and when to ask for more.
//!
//! Space is reserved before an offset is stamped, so that nothing stamped is ever withdrawn. Steps
//! grow fourfold with the partition's rate: a partition that writes little reserves little, a fast one
//! asks rarely, ahead of need, and off the append's path.

use corelog_io::align_up;

use crate::LogConfig;

const STEP_MIN: u64 = 64 << 10;
const STEP_MAX: u64 = 64 << 20;
/// With `enforce_fsync` the steps are filled with zeros (see `Partition::allocate`), which costs
/// the device a second write of every byte: stay a little ahead, no more.
const STEP_MAX_ZEROED: u64 = 4 << 20;

pub(crate) struct Space {
    reserved: u64,
    step: u64,
    step_max: u64,
    segment_bytes: u64,
    /// The last request found no space: ask for no more than is needed.
    tight: bool,
    /// The whole segment at once.
    whole: bool,
}

impl Space {
    /// A file of which `reserved` bytes are allocated.
    pub(crate) fn new(reserved: u64, config: &LogConfig) -> Self {
        let (segment_bytes, whole) = (config.segment_bytes, config.preallocate_segments);
        let step_max = if config.enforce_fsync { STEP_MAX_ZEROED } else { STEP_MAX };
        Space { reserved, step: STEP_MIN, step_max, segment_bytes, tight: false, whole }
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// The length to allocate so that bytes up to `end` fit; `None` where they do.
    pub(crate) fn needed(&self, end: u64) -> Option<u64> {
        (end > self.reserved).then(|| if self.tight { align_up(end) } else { self.target(end) })
    }

    /// The length to allocate ahead of need with the log at `end`; `None` where enough is left.
    /// A log that reserved nothing yet, and one that is close to its segment's end, ask for none.
    pub(crate) fn ahead(&self, end: u64) -> Option<u64> {
        let left = self.reserved.saturating_sub(end);
        let grown = self.step > STEP_MIN;
        // Half of the step before this one.
        let wanted = grown && !self.tight && left < self.step / 8;
        (wanted && self.reserved < self.segment_bytes).then(|| self.target(end))
    }

    fn target(&self, end: u64) -> u64 {
        let step = if self.whole { self.segment_bytes } else { self.step };
        // Never beyond the segment, but for a last batch that crosses its end.
        align_up(end.max(self.segment_bytes.min(end.saturating_add(step))))
    }

    pub(crate) fn granted(&mut self, to: u64) {
        self.reserved = self.reserved.max(to);
        self.step = (self.step * 4).min(self.step_max);
        self.tight = false;
    }

    pub(crate) fn refused(&mut self) {
        self.tight = true;
        self.step = STEP_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_up_to_the_segment() {
        let config = LogConfig { segment_bytes: 4 << 20, ..LogConfig::default() };
        let mut space = Space::new(0, &config);
        assert_eq!(space.ahead(0), None, "an idle partition reserves nothing");
        let to = space.needed(1000).unwrap();
        assert_eq!(to, align_up(1000 + STEP_MIN));
        space.granted(to);
        assert_eq!(space.needed(to), None);
        assert_eq!(space.ahead(1000), None);
        let to = space.ahead(to - 1000).unwrap();
        space.granted(to);
        let mut end = to;
        while let Some(to) = space.needed(end + 4096) {
            space.granted(to);
            end = to;
            if end >= config.segment_bytes {
                break;
            }
        }
        assert_eq!(end, config.segment_bytes, "steps end with the segment");
        assert_eq!(space.needed(end + 1), Some(end + 4096), "a last batch may cross it");
        assert_eq!(space.ahead(end), None);
    }

    #[test]
    fn a_full_disk_is_asked_for_no_more_than_needed() {
        let mut space = Space::new(0, &LogConfig::default());
        space.refused();
        assert_eq!(space.needed(5000), Some(8192));
        assert_eq!(space.ahead(5000), None);
    }

    #[test]
    fn preallocation_takes_the_segment_and_not_more() {
        let config = LogConfig {
            segment_bytes: 1 << 20,
            preallocate_segments: true,
            ..LogConfig::default()
        };
        assert_eq!(Space::new(0, &config).needed(1), Some(1 << 20));
    }
}
