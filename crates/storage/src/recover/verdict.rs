//! The decision about a log's end, as a pure function of what the walk met.

use corelog_format::{FormatError, FormatErrorKind};

/// How the walk over the last segments ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// At the end of the last file.
    End,
    /// At bytes that do not continue the log.
    Damage {
        /// True where the mark says that they were synced.
        below_mark: bool,
        why: FormatError,
    },
    /// A file whose name does not continue the log.
    Gap {
        /// True where the mark says that what is missing was synced.
        below_mark: bool,
    },
}

/// What is known beside the stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) stop: Stop,
    /// There is a manifest, so damage above its mark is an interrupted write.
    pub(crate) has_mark: bool,
    /// Files behind the one in which the walk stopped, ascending.
    pub(crate) behind: Vec<u64>,
    /// A whole batch stands behind the stop, so what stopped the walk is not the log's last batch.
    pub(crate) followed: bool,
    /// The larger of the mark's next offset and the end of the highest batch that verifies.
    pub(crate) highest: u64,
}

/// What to do with the end of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is wrong: go on in the last file.
    Whole,
    /// Cut the file where the walk stopped, and take the files behind it away.
    Cut { behind: Vec<u64> },
    /// Leave everything; go on in a new segment of this first offset.
    NewSegment { at: u64 },
}

/// Decides.
///
/// | stop | with a mark | without |
/// | --- | --- | --- |
/// | end | whole | whole |
/// | damage or gap below the mark | new segment | - |
/// | damage above, or gap | cut | incomplete last batch of the last file: cut; else new segment |
pub(crate) fn decide(facts: Facts) -> Verdict {
    let Facts { stop, has_mark, behind, followed, highest } = facts;
    let cut = match stop {
        Stop::End => return Verdict::Whole,
        Stop::Damage { below_mark, .. } | Stop::Gap { below_mark } if has_mark => !below_mark,
        Stop::Damage { why, .. } => behind.is_empty() && !followed && is_incomplete(&why),
        Stop::Gap { .. } => false,
    };
    if cut { Verdict::Cut { behind } } else { Verdict::NewSegment { at: highest } }
}

/// A batch that the end of the file cuts short.
fn is_incomplete(why: &FormatError) -> bool {
    matches!(why.kind, FormatErrorKind::Truncated { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_one_verdict() {
        let truncated = FormatErrorKind::Truncated { needed: 300, have: 10 };
        let truncated = FormatError::new(0, "batch_length", truncated);
        let flipped = FormatErrorKind::Checksum { expected: 1, found: 2 };
        let flipped = FormatError::new(0, "batch_checksum", flipped);
        let damage = |below_mark, why| Stop::Damage { below_mark, why };
        let gap = |below_mark| Stop::Gap { below_mark };
        let cut = |behind: &[u64]| Verdict::Cut { behind: behind.into() };
        let new = Verdict::NewSegment { at: 77 };
        let rows = [
            (Stop::End, true, &[][..], Verdict::Whole),
            (Stop::End, false, &[], Verdict::Whole),
            (damage(false, truncated), true, &[], cut(&[])),
            (damage(false, flipped), true, &[], cut(&[])),
            (damage(false, flipped), true, &[50, 60], cut(&[50, 60])),
            (damage(true, flipped), true, &[], new.clone()),
            (damage(true, truncated), true, &[50], new.clone()),
            (gap(false), true, &[50], cut(&[50])),
            (gap(true), true, &[50], new.clone()),
            (damage(false, truncated), false, &[], cut(&[])),
            (damage(false, flipped), false, &[], new.clone()),
            (damage(false, truncated), false, &[50], new.clone()),
            (gap(false), false, &[50], new.clone()),
        ];
        for (stop, has_mark, behind, verdict) in rows {
            let behind = behind.to_vec();
            let facts = Facts { stop, has_mark, behind, followed: false, highest: 77 };
            assert_eq!(decide(facts.clone()), verdict, "{facts:?}");
        }
        let followed = |stop, has_mark| {
            decide(Facts { stop, has_mark, behind: Vec::new(), followed: true, highest: 77 })
        };
        assert_eq!(followed(damage(false, truncated), false), new, "not the last batch");
        assert_eq!(followed(damage(false, truncated), true), cut(&[]), "the mark decides");
    }
}
