//! The decision about a log's end: a table of facts and verdicts, and the function that looks a
//! case up in it. Pure: the walk brings the facts, `act` carries the verdict out.
//!
//! `docs/durability.md` shows the same table, written from the rows; a test compares the two.

/// How the walk over the log's end stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Behind the last batch of a file.
    End,
    /// Inside a batch that the end of the file cuts short.
    Incomplete,
    /// At bytes that are not the log's next batch.
    Damage,
    /// At bytes that the device does not give back.
    Unreadable,
    /// Before it began: there is no file to walk.
    Missing,
}

/// Where the walk stopped, by what the manifest says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Below the durable mark: these bytes were synced.
    Below,
    /// At the mark or above it.
    Above,
    /// There is no manifest: the files are the reference server's.
    NoManifest,
    /// Neither slot of the manifest can be used.
    ManifestLost,
}

/// What stands behind the place where the walk stopped, in the same file or in files behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    Nothing,
    /// Files without a byte that is not zero, made ahead of need or left by a roll.
    Blank,
    /// A batch that verifies, a file with anything in it, or bytes that cannot be read.
    Bytes,
}

/// What is known about the end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) stop: Stop,
    pub(super) place: Place,
    pub(super) behind: Behind,
}

/// What is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Create the partition.
    Create,
    /// Go on where the walk stopped.
    Keep,
    /// Cut the file where the walk stopped and take the files behind it away; whole batches in
    /// either go to quarantine first. Go on there.
    Cut,
    /// Leave every byte. Go on in a new segment behind every offset that may be taken.
    NewSegment,
}

/// One row: it applies where each fact is one of those listed.
pub(super) struct Row {
    pub(super) name: &'static str,
    stop: &'static [Stop],
    place: &'static [Place],
    behind: &'static [Behind],
    pub(super) verdict: Verdict,
    /// Why it is done, for people.
    pub(super) why: &'static str,
}

const ANY_PLACE: &[Place] = &[Place::Below, Place::Above, Place::NoManifest, Place::ManifestLost];
const NO_MARK: &[Place] = &[Place::NoManifest, Place::ManifestLost];
const ANY: &[Behind] = &[Behind::Nothing, Behind::Blank, Behind::Bytes];

/// Every combination of facts has exactly one row.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "new",
        stop: &[Stop::Missing],
        place: &[Place::NoManifest],
        behind: ANY,
        verdict: Verdict::Create,
        why: "nothing was ever stored here; what an interrupted creation left is used",
    },
    Row {
        name: "whole",
        stop: &[Stop::End],
        place: &[Place::Above],
        behind: &[Behind::Nothing, Behind::Blank],
        verdict: Verdict::Keep,
        why: "every byte is accounted for; files made ahead of need are removed",
    },
    Row {
        name: "adopted",
        stop: &[Stop::End],
        place: NO_MARK,
        behind: &[Behind::Nothing],
        verdict: Verdict::Keep,
        why: "a log without a mark, and nothing wrong with it: from now on it has one",
    },
    Row {
        name: "torn tail",
        stop: &[Stop::Incomplete, Stop::Damage],
        place: &[Place::Above],
        behind: ANY,
        verdict: Verdict::Cut,
        why: "an interrupted write; what lost its place must not come back under new batches",
    },
    Row {
        name: "stray segment",
        stop: &[Stop::End],
        place: &[Place::Above],
        behind: &[Behind::Bytes],
        verdict: Verdict::Cut,
        why: "a later file that does not continue the log has lost its place like a torn tail",
    },
    Row {
        name: "begun again",
        stop: &[Stop::Missing],
        place: &[Place::Above],
        behind: ANY,
        verdict: Verdict::Cut,
        why: "the mark stands at the start of the missing file, so nothing synced was in it",
    },
    Row {
        name: "corrupt",
        stop: &[Stop::Incomplete, Stop::Damage],
        place: &[Place::Below],
        behind: ANY,
        verdict: Verdict::NewSegment,
        why: "synced bytes have changed: no crash does that, so nothing of it is cut or mended",
    },
    Row {
        name: "cut short",
        stop: &[Stop::End],
        place: &[Place::Below],
        behind: ANY,
        verdict: Verdict::NewSegment,
        why: "the log ends before the mark: synced batches are gone, their offsets stay taken",
    },
    Row {
        name: "missing segment",
        stop: &[Stop::Missing],
        place: &[Place::Below],
        behind: ANY,
        verdict: Verdict::NewSegment,
        why: "the file that the mark stands in is gone, its offsets stay taken",
    },
    Row {
        name: "unreadable",
        stop: &[Stop::Unreadable],
        place: ANY_PLACE,
        behind: ANY,
        verdict: Verdict::NewSegment,
        why: "an error is no proof of a torn write: acknowledged batches may stand there",
    },
    Row {
        name: "incomplete batch",
        stop: &[Stop::Incomplete],
        place: NO_MARK,
        behind: &[Behind::Nothing],
        verdict: Verdict::Cut,
        why: "the one thing that may be cut without a mark: the last batch, which never ended",
    },
    Row {
        name: "incomplete batch inside",
        stop: &[Stop::Incomplete],
        place: NO_MARK,
        behind: &[Behind::Blank, Behind::Bytes],
        verdict: Verdict::NewSegment,
        why: "something stands behind it, so it is not the last batch but a damaged length",
    },
    Row {
        name: "damage without a mark",
        stop: &[Stop::Damage],
        place: NO_MARK,
        behind: ANY,
        verdict: Verdict::NewSegment,
        why: "nothing tells a torn write from damage, so it counts as damage",
    },
    Row {
        name: "gap without a mark",
        stop: &[Stop::End],
        place: NO_MARK,
        behind: &[Behind::Blank, Behind::Bytes],
        verdict: Verdict::NewSegment,
        why: "a later file's name says that more was stored than is there",
    },
    Row {
        name: "no log left",
        stop: &[Stop::Missing],
        place: &[Place::ManifestLost],
        behind: ANY,
        verdict: Verdict::NewSegment,
        why: "a manifest was here, and no log: it begins again, and that is reported",
    },
];

impl Row {
    fn fits(&self, facts: Facts) -> bool {
        self.stop.contains(&facts.stop)
            && self.place.contains(&facts.place)
            && self.behind.contains(&facts.behind)
    }
}

/// The row that applies.
pub(super) fn decide(facts: Facts) -> &'static Row {
    // Total by test, over every combination there is.
    TABLE.iter().find(|row| row.fits(facts)).expect("a row for every combination of facts")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOPS: &[Stop] =
        &[Stop::End, Stop::Incomplete, Stop::Damage, Stop::Unreadable, Stop::Missing];

    #[test]
    fn every_combination_of_facts_has_exactly_one_row() {
        let mut met = vec![0; TABLE.len()];
        for &stop in STOPS {
            for &place in ANY_PLACE {
                for &behind in ANY {
                    let facts = Facts { stop, place, behind };
                    let rows: Vec<usize> =
                        (0..TABLE.len()).filter(|row| TABLE[*row].fits(facts)).collect();
                    let names: Vec<&str> = rows.iter().map(|row| TABLE[*row].name).collect();
                    assert_eq!(rows.len(), 1, "{facts:?}: {names:?}");
                    assert_eq!(decide(facts).name, names[0]);
                    met[rows[0]] += 1;
                }
            }
        }
        assert_eq!(met.iter().sum::<i32>(), 60, "all lists above are complete");
        assert!(met.iter().all(|count| *count > 0), "a row that nothing can reach");
    }

    #[test]
    fn synced_bytes_are_never_cut_and_nothing_unreadable_is() {
        for row in TABLE.iter().filter(|row| matches!(row.verdict, Verdict::Cut | Verdict::Keep)) {
            assert!(!row.place.contains(&Place::Below), "{}", row.name);
            assert!(!row.stop.contains(&Stop::Unreadable), "{}", row.name);
        }
    }

    fn words<T: Copy + PartialEq>(
        of: &[T],
        all: usize,
        word: impl Fn(T) -> &'static str,
    ) -> String {
        if of.len() == all {
            return "any".into();
        }
        of.iter().map(|one| word(*one)).collect::<Vec<_>>().join(", ")
    }

    /// The table as the document shows it.
    fn markdown() -> String {
        let mut lines = vec![
            "| row | the walk stops | the manifest says | behind it | done | why |".to_owned(),
            "| --- | --- | --- | --- | --- | --- |".to_owned(),
        ];
        for row in TABLE {
            let stop = words(row.stop, STOPS.len(), |stop| match stop {
                Stop::End => "at the end",
                Stop::Incomplete => "in an incomplete batch",
                Stop::Damage => "at damage",
                Stop::Unreadable => "at an unreadable sector",
                Stop::Missing => "before it begins: no file",
            });
            let place = words(row.place, ANY_PLACE.len(), |place| match place {
                Place::Below => "below the mark",
                Place::Above => "above the mark",
                Place::NoManifest => "absent",
                Place::ManifestLost => "lost",
            });
            let behind = words(row.behind, ANY.len(), |behind| match behind {
                Behind::Nothing => "nothing",
                Behind::Blank => "blank files",
                Behind::Bytes => "bytes",
            });
            let done = match row.verdict {
                Verdict::Create => "create",
                Verdict::Keep => "keep",
                Verdict::Cut => "cut",
                Verdict::NewSegment => "new segment",
            };
            let (name, why) = (row.name, row.why);
            lines.push(format!("| `{name}` | {stop} | {place} | {behind} | {done} | {why} |"));
        }
        lines.join("\n")
    }

    #[test]
    fn the_document_shows_this_table() {
        let document = include_str!("../../../../docs/durability.md");
        let table = markdown();
        assert!(document.contains(&table), "docs/durability.md must show this table:\n\n{table}\n");
    }
}
