//! One thing that goes wrong, as a line of text that replays it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::expect::Expect;
use super::misplaced::Misplaced;
use super::specimen::Specimen;
use super::wound::Wound;

/// One thing that goes wrong with a data directory. Its text form replays it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case(pub(super) Harm);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Harm {
    Wound(Wound),
    Misplaced(Misplaced),
}

impl Case {
    pub(super) fn apply(&self, specimen: &Specimen, dir: &Path) -> io::Result<()> {
        match &self.0 {
            Harm::Wound(wound) => wound.apply(dir),
            Harm::Misplaced(misplaced) => misplaced.apply(specimen, dir),
        }
    }

    /// Files and directories, below the data directory, that the case changes.
    pub(super) fn touches(&self, specimen: &Specimen) -> Vec<PathBuf> {
        match &self.0 {
            Harm::Wound(wound) => vec![wound.file().to_owned()],
            Harm::Misplaced(misplaced) => misplaced.touches(specimen),
        }
    }

    /// What may be wrong after it, by partition; `None` where it harms the engine's own files.
    pub(super) fn expect(&self, specimen: &Specimen) -> Option<Vec<(usize, Expect)>> {
        match &self.0 {
            Harm::Wound(wound) => wound.expect(specimen).map(|one| vec![one]),
            Harm::Misplaced(misplaced) => misplaced.expect(specimen),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Harm::Wound(wound) => wound.fmt(f),
            Harm::Misplaced(misplaced) => misplaced.fmt(f),
        }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Case, String> {
        let wound = Wound::parse(text).map(Harm::Wound);
        let harm = wound.or_else(|| Misplaced::parse(text).map(Harm::Misplaced));
        harm.map(Case).ok_or_else(|| format!("no case is called {text:?}"))
    }
}
