//! What `corelog-dump verify` says of a harmed directory, held against what the engine serves of it:
//! two readers of the same files that share the decoder and nothing above it.

use std::path::Path;

use corelog_dump::{FileVerdict, Verdict, verdicts};

use super::specimen::Partition;

/// What the dump says of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Dumped {
    /// All of its files are clean.
    Clean,
    /// Some are not: which.
    Harmed(String),
    /// Nothing that counts: it has no file of the partition to look at, has passed over what stands
    /// in the place of one, or has found something behind the end of one.
    Nothing,
}

/// Looks at each partition below the data directory `root`.
pub(super) fn dumped(root: &Path, partition: &Partition) -> Dumped {
    let dir = root.join(&partition.dir);
    let said = verdicts(&dir);
    if said.files.is_empty() {
        return Dumped::Nothing;
    }
    // What stands behind the end of a sealed segment is no part of the log: nobody reads it.
    let is_inside = |file: &&FileVerdict| {
        let end = file.first_offset.map_or(0, |first| partition.log_end(first));
        let is_sealed = file.first_offset.is_some_and(|first| first < partition.active());
        !is_sealed || file.faults.iter().any(|(at, _)| *at < end)
    };
    let harmed = said.files.iter().filter(|file| file.verdict != Verdict::Clean);
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let say = |file: &FileVerdict| format!("{} is {:?}", name(&file.path), file.verdict);
    let all: Vec<_> = harmed.clone().filter(is_inside).map(say).chain(said.unread).collect();
    if !all.is_empty() {
        Dumped::Harmed(all.join(", "))
    } else if harmed.count() > 0 || said.ignored.iter().any(|line| line.contains(".log")) {
        Dumped::Nothing
    } else {
        Dumped::Clean
    }
}
