//! The verdicts of `verify` as values, for whoever holds them against an engine.

use std::path::{Path, PathBuf};

use crate::discover;
use crate::report::Report;
use crate::session::Session;
use crate::source::Access;
use crate::verify;
use crate::walk::Verdict;

/// What `corelog-dump verify` says of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// One for each segment file, and for one that should be there and is not.
    pub files: Vec<FileVerdict>,
    /// Offsets that no readable batch holds: from, and up to where that is known.
    pub lost: Vec<(u64, Option<u64>)>,
    /// What could not be looked at, in words.
    pub unread: Vec<String>,
    /// Entries that were passed over as none of a log's files, in words.
    pub ignored: Vec<String>,
}

/// What it says of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVerdict {
    /// The file.
    pub path: PathBuf,
    /// The verdict.
    pub verdict: Verdict,
    /// The first offset that its name states.
    pub first_offset: Option<u64>,
    /// Batches in it that verify, wherever they stand.
    pub batches: u64,
    /// What is odd without being damage, in words.
    pub findings: Vec<String>,
    /// Damage: file positions, and what is wrong there in words.
    pub faults: Vec<(u64, String)>,
}

/// Verifies everything below `dir`, which may be any level of a data directory. Nothing is printed.
#[must_use]
pub fn verdicts(dir: &Path) -> Verdicts {
    let found = discover::discover(&[dir.to_path_buf()]);
    let mut verdicts = Verdicts { ignored: found.ignored, ..Verdicts::default() };
    verdicts.unread.extend(found.failures.iter().map(ToString::to_string));
    let mut session = Session::silent(Access::default());
    for partition in &found.partitions {
        match verify::partition_reports(&mut session, partition) {
            Ok((reports, about)) => {
                verdicts.lost.extend(about.holes.iter().map(|hole| (hole.from, hole.to)));
                verdicts.files.extend(reports.into_iter().map(FileVerdict::of));
            }
            Err(failure) => verdicts.unread.push(failure.to_string()),
        }
    }
    verdicts.unread.extend(session.failures());
    verdicts
}

impl FileVerdict {
    fn of(report: Report) -> FileVerdict {
        let faults = report.faults.kept().iter();
        FileVerdict {
            faults: faults.map(|fault| (fault.position, fault.detail.clone())).collect(),
            findings: report.findings.kept().iter().map(|f| f.detail.clone()).collect(),
            path: report.path,
            verdict: report.verdict,
            first_offset: report.named_offset,
            batches: report.batches,
        }
    }
}
