//! What `verify` has to say about one file, as JSON and as text.

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

use corelog_format::{FormatError, FormatErrorKind};

use crate::failure::Shown;
use crate::index_check::IndexState;
use crate::json::{List, Object, Out};
use crate::partition_report::Offsets;
use crate::walk::{Level, Verdict};

/// Faults, and findings, that are kept of one file; of the rest only the number. A hostile file
/// may have one for every few hundred bytes.
const KEPT_MAX: usize = 1_000;

/// The report on one file.
#[derive(Debug)]
pub(crate) struct Report {
    /// The file.
    pub(crate) path: PathBuf,
    /// The first offset that its name states.
    pub(crate) named_offset: Option<u64>,
    /// The verdict.
    pub(crate) verdict: Verdict,
    /// Batches that verify, wherever they stand.
    pub(crate) batches: u64,
    /// Messages in them.
    pub(crate) messages: u64,
    /// Offset of the first of them.
    pub(crate) first_offset: Option<u64>,
    /// Offset of the last of them.
    pub(crate) last_offset: Option<u64>,
    /// Length of the file.
    pub(crate) bytes: u64,
    /// Zeros behind the last batch, when nothing else is there.
    pub(crate) zero_tail: u64,
    /// State of the index beside it.
    pub(crate) index: IndexState,
    /// What is odd without being damage.
    pub(crate) findings: Capped<Finding>,
    /// Damage.
    pub(crate) faults: Capped<Fault>,
    /// Offsets that the damage took, as far as what stands around it tells; as many as faults.
    pub(crate) lost: Vec<Offsets>,
    /// How closely it was looked at.
    pub(crate) level: Level,
    /// What was not looked at.
    pub(crate) not_checked: Vec<Unchecked>,
    /// Bytes that the device did not give back.
    pub(crate) unreadable_bytes: u64,
}

impl Report {
    /// A report on a file of which nothing was read yet.
    pub(crate) fn new(path: &Path, named_offset: Option<u64>) -> Report {
        Report {
            path: path.to_path_buf(),
            named_offset,
            verdict: Verdict::Clean,
            batches: 0,
            messages: 0,
            first_offset: None,
            last_offset: None,
            bytes: 0,
            zero_tail: 0,
            index: IndexState::Missing,
            findings: Capped::default(),
            faults: Capped::default(),
            lost: Vec::new(),
            level: Level::Full,
            not_checked: Vec::new(),
            unreadable_bytes: 0,
        }
    }

    /// The offset that the next segment should begin with, if this file says one.
    pub(crate) fn next_offset(&self) -> Option<u64> {
        self.last_offset.map_or(self.named_offset, |last| last.checked_add(1))
    }
}

/// The first of many, and the number of the rest.
#[derive(Debug)]
pub(crate) struct Capped<T> {
    kept: Vec<T>,
    more: u64,
}

impl<T> Default for Capped<T> {
    fn default() -> Self {
        Capped { kept: Vec::new(), more: 0 }
    }
}

impl<T> Capped<T> {
    /// Those that are kept.
    pub(crate) fn kept(&self) -> &[T] {
        &self.kept
    }

    /// Those that are kept, to add to them.
    pub(crate) fn kept_mut(&mut self) -> &mut [T] {
        &mut self.kept
    }

    /// Keeps or counts one.
    pub(crate) fn push(&mut self, item: T) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(item);
        } else {
            self.more += 1;
        }
    }
}

/// Something that the verdict says nothing about.
#[derive(Debug)]
pub(crate) struct Unchecked {
    /// A stable word for it.
    pub(crate) what: &'static str,
    /// File positions, for a range of bytes.
    pub(crate) range: Option<(u64, u64)>,
    /// A sentence for people.
    pub(crate) detail: String,
}

/// Something odd that is no damage.
#[derive(Debug)]
pub(crate) struct Finding {
    /// A stable word for it.
    pub(crate) what: &'static str,
    /// File position and offset, for what stands somewhere.
    pub(crate) place: Option<(u64, u64)>,
    /// A sentence for people.
    pub(crate) detail: String,
}

/// Damage at one place.
#[derive(Debug)]
pub(crate) struct Fault {
    /// File position at which a readable batch should begin.
    pub(crate) position: u64,
    /// The offset that should come there, if anything says so.
    pub(crate) offset: Option<u64>,
    /// The field that breaks a rule.
    pub(crate) field: &'static str,
    /// What it should be.
    pub(crate) expected: Said,
    /// What it is.
    pub(crate) found: Said,
    /// A sentence for people.
    pub(crate) detail: String,
    /// File position and offset of the next batch behind it that verifies; for damage that is no
    /// damaged bytes (a missing file, a hole between two) there is none.
    pub(crate) resumes: Option<(u64, u64)>,
}

/// One side of a contradiction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing to be said.
    Nothing,
    /// A number.
    Number(u64),
    /// A checksum: a decimal string, as everywhere.
    Checksum(u64),
    /// Words.
    Words(String),
}

impl Fault {
    /// The fault at file position `at` for a rule that the decoder found broken.
    pub(crate) fn of_format(at: u64, offset: Option<u64>, why: &FormatError) -> Fault {
        let (expected, found) = sides(why.kind);
        let detail = why.to_string();
        let (position, field) = (at, why.field);
        Fault { position, offset, field, expected, found, detail, resumes: None }
    }
}

/// Expected and found of a broken rule.
fn sides(kind: FormatErrorKind) -> (Said, Said) {
    use FormatErrorKind as Kind;
    let words = |text: &str| Said::Words(text.to_string());
    match kind {
        Kind::Truncated { needed, have } => (Said::Number(needed), Said::Number(have)),
        Kind::Trailing { extra } => (Said::Number(0), Said::Number(extra)),
        Kind::OutOfRange { found, min, max } => {
            (Said::Words(format!("{min}..={max}")), Said::Number(found))
        }
        Kind::UnknownCode { found } => (words("a known code"), Said::Number(found)),
        Kind::Mismatch { expected, found } => (Said::Number(expected), Said::Number(found)),
        Kind::NotUtf8 => (words("UTF-8"), Said::Nothing),
        Kind::NotZero { found } => (Said::Number(0), Said::Number(u64::from(found))),
        Kind::Checksum { expected, found } => (Said::Checksum(expected), Said::Checksum(found)),
        Kind::KeyWithoutValue => (words("a value"), Said::Nothing),
        Kind::DuplicateKey => (words("each key once"), Said::Nothing),
        Kind::KeyNotString { found } => (Said::Number(2), Said::Number(u64::from(found))),
        // A rule that is newer than this table: its sentence stands in `detail`.
        _ => (Said::Nothing, Said::Nothing),
    }
}

impl Verdict {
    /// The word in every output.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Verdict::Clean => "clean",
            Verdict::TornTail => "torn_tail",
            Verdict::Corrupt => "corrupt",
        }
    }
}

/// Writes the report as one object of the document's `files`.
pub(crate) fn json(out: Out<'_>, report: &Report) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    object.text("path", &report.path.to_string_lossy())?;
    object.text("verdict", report.verdict.word())?;
    object.number("batches", report.batches)?;
    object.number("messages", report.messages)?;
    object.maybe("first_offset", report.first_offset)?;
    object.maybe("last_offset", report.last_offset)?;
    object.number("bytes", report.bytes)?;
    object.number("zero_tail", report.zero_tail)?;
    object.text("index", report.index.word())?;
    let mut findings = List::begin(object.field("findings")?)?;
    for finding in &report.findings.kept {
        json_finding(findings.item()?, finding)?;
    }
    for (what, more) in
        [("more_findings", report.findings.more), ("more_faults", report.faults.more)]
    {
        if more > 0 {
            let detail = format!("{more} more, not listed");
            json_finding(findings.item()?, &Finding { what, place: None, detail })?;
        }
    }
    findings.end()?;
    let mut faults = List::begin(object.field("faults")?)?;
    for fault in &report.faults.kept {
        let mut item = Object::begin(faults.item()?)?;
        item.number("position", fault.position)?;
        item.maybe("offset", fault.offset)?;
        item.text("field", fault.field)?;
        said(item.field("expected")?, &fault.expected)?;
        said(item.field("found")?, &fault.found)?;
        item.text("detail", &fault.detail)?;
        item.maybe("resumes_at", fault.resumes.map(|(position, _)| position))?;
        item.maybe("resumes_with", fault.resumes.map(|(_, offset)| offset))?;
        item.end()?;
    }
    faults.end()?;
    object.text("level", report.level.word())?;
    let mut unchecked = List::begin(object.field("not_checked")?)?;
    for Unchecked { what, range, detail } in &report.not_checked {
        let mut item = Object::begin(unchecked.item()?)?;
        item.text("what", what)?;
        if let Some((position, end)) = range {
            item.number("position", *position)?;
            item.number("end", *end)?;
        }
        item.text("detail", detail)?;
        item.end()?;
    }
    unchecked.end()?;
    object.end()
}

fn json_finding(out: Out<'_>, finding: &Finding) -> io::Result<()> {
    let mut item = Object::begin(out)?;
    item.text("finding", finding.what)?;
    if let Some((position, offset)) = finding.place {
        item.number("position", position)?;
        item.number("offset", offset)?;
    }
    item.text("detail", &finding.detail)?;
    item.end()
}

fn said(out: Out<'_>, said: &Said) -> io::Result<()> {
    match said {
        Said::Nothing => out.write_all(b"null"),
        Said::Number(value) => write!(out, "{value}"),
        Said::Checksum(value) => write!(out, "\"{value}\""),
        Said::Words(words) => crate::json::text(out, words),
    }
}

/// The report for people: a line, and one for each fault and finding.
impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = Shown(&self.path);
        write!(f, "{:<9} {path}: {} batches", self.verdict.word(), self.batches)?;
        write!(f, ", {} messages", self.messages)?;
        if let (Some(first), Some(last)) = (self.first_offset, self.last_offset) {
            write!(f, ", offsets {first} to {last}")?;
        }
        write!(f, ", {} bytes", self.bytes)?;
        if self.zero_tail > 0 {
            write!(f, " (the last {} zeros)", self.zero_tail)?;
        }
        writeln!(f, ", index {}", self.index.word())?;
        for fault in &self.faults.kept {
            write!(f, "          damage at {}", fault.position)?;
            if let Some(offset) = fault.offset {
                write!(f, ", offset {offset} expected there")?;
            }
            write!(f, ": {}", fault.detail)?;
            match fault.resumes {
                Some((at, offset)) => writeln!(f, "; goes on at {at} with offset {offset}")?,
                None => writeln!(f)?,
            }
        }
        if self.faults.more > 0 {
            writeln!(f, "          and damage at {} more places", self.faults.more)?;
        }
        for finding in &self.findings.kept {
            write!(f, "          finding: {}", finding.detail)?;
            match finding.place {
                Some((position, offset)) => writeln!(f, " (at {position}, offset {offset})")?,
                None => writeln!(f)?,
            }
        }
        if self.findings.more > 0 {
            writeln!(f, "          and {} more findings", self.findings.more)?;
        }
        // That an index is missing was said, and that a file stands alone is what was asked for.
        let known = ["index", "partition_id", "first_offset"];
        let unchecked = self.not_checked.iter().filter(|one| !known.contains(&one.what));
        for Unchecked { range, detail, .. } in unchecked {
            match range {
                Some((at, end)) => writeln!(f, "          not checked: {at} to {end}: {detail}")?,
                None => writeln!(f, "          not checked: {detail}")?,
            }
        }
        Ok(())
    }
}
