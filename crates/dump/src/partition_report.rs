//! What `verify` has to say about a partition beside the verdicts on its files, and about the data
//! directory around it.

use std::fmt::{self, Display};
use std::io;
use std::path::PathBuf;

use corelog_format::{Manifest, OffsetTable};

use crate::failure::Shown;
use crate::json::{List, Object, Out};
use crate::records::{self, Home, ReferenceOffsets, SlotIs, Stored};
use crate::report::Report;

/// Holes, overlaps, names and troubles that are listed; of more only that there are.
const LISTED_MAX: usize = 1_000;

/// Offsets `from..to`; `to` is `None` where nothing says how far they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
}

/// The report on a partition.
#[derive(Debug)]
pub(crate) struct PartitionReport {
    path: PathBuf,
    id: Option<u64>,
    manifest: Stored<Manifest>,
    table: Stored<OffsetTable>,
    reference: ReferenceOffsets,
    ignored: Vec<String>,
    /// Offsets that no readable batch holds although later ones do, or should.
    pub(crate) holes: Vec<Offsets>,
    /// Offsets that two files hold.
    overlaps: Vec<Offsets>,
    findings: Vec<(&'static str, String)>,
}

impl PartitionReport {
    /// Looks at what stands beside the segments in the directory at `path`.
    pub(crate) fn take(path: PathBuf, id: Option<u64>, ignored: Vec<String>) -> PartitionReport {
        PartitionReport {
            manifest: records::manifest(&path),
            table: records::offset_table(&path),
            reference: records::reference_offsets(&path),
            path,
            id,
            ignored,
            holes: Vec::new(),
            overlaps: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// The data directory that it stands in.
    pub(crate) fn data_dir(&self) -> Option<PathBuf> {
        records::data_dir(&self.path)
    }

    /// Draws the conclusions that take all files of the partition.
    pub(crate) fn conclude(&mut self, reports: &[Report]) {
        self.between(reports);
        let mut note = |what, troubles: Vec<String>| {
            self.findings.extend(troubles.into_iter().map(|why| (what, why)));
        };
        note("manifest_damaged", self.manifest.troubles());
        note("consumer_offsets_damaged", self.table.troubles());
        note("consumer_offsets_damaged", std::mem::take(&mut self.reference.troubles));
        let life = self.manifest.value().map(|manifest| manifest.incarnation);
        if let (Some(table), Some(life)) = (self.table.value(), life)
            && table.incarnation != life
        {
            let other = table.incarnation;
            let why = format!("stored in incarnation {other}, the manifest names {life}");
            note("consumer_offsets_of_another_life", vec![why]);
        }
        // What was stored beyond the log's end is clamped at the next opening.
        let mark = self.manifest.value().map(|manifest| manifest.mark.next_offset);
        let end = reports.iter().filter_map(Report::next_offset).max().max(mark);
        let stored = self.table.value().into_iter().flat_map(|table| &table.entries);
        let highest = stored.map(|entry| entry.offset).max().max(self.reference.highest);
        if let (Some(highest), Some(end)) = (highest, end)
            && highest >= end.max(1)
        {
            let why = format!("offset {highest} is stored, the log ends before {end}");
            note("consumer_offset_beyond_the_end", vec![why]);
        }
    }

    /// Holes and overlaps, from what each file holds.
    fn between(&mut self, reports: &[Report]) {
        // The log begins where the manifest says.
        let mut next = self.manifest.value().map(|manifest| manifest.first_offset);
        let begins = reports.iter().filter_map(|report| report.first_offset).min();
        if begins.is_some_and(|first| next.is_some_and(|next| first < next)) {
            // Leftovers below it, which are findings of their own.
            next = None;
        }
        for report in reports {
            for lost in &report.lost {
                push(&mut self.holes, *lost);
            }
            let (Some(first), Some(last)) = (report.first_offset, report.last_offset) else {
                continue;
            };
            match next {
                Some(next) if first > next => {
                    push(&mut self.holes, Offsets { from: next, to: Some(first) });
                }
                Some(next) if first < next => {
                    let to = next.min(last.saturating_add(1));
                    push(&mut self.overlaps, Offsets { from: first, to: Some(to) });
                }
                _ => {}
            }
            next = next.max(last.checked_add(1));
        }
        // And it reaches at least to the mark, wherever that stands.
        let mark = self.manifest.value().map(|manifest| manifest.mark.next_offset);
        let is_said = self.holes.iter().any(|hole| hole.to.is_none());
        if let (Some(from), Some(to), false) = (next, mark, is_said)
            && from < to
        {
            push(&mut self.holes, Offsets { from, to: Some(to) });
        }
        self.holes.sort_by_key(|hole| (hole.from, hole.to.unwrap_or(u64::MAX)));
        self.holes.dedup();
    }
}

fn push(list: &mut Vec<Offsets>, one: Offsets) {
    if list.len() < LISTED_MAX {
        list.push(one);
    }
}

/// Writes the report as one object of the document's `partitions`.
pub(crate) fn json(out: Out<'_>, report: &PartitionReport) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    object.text("path", &report.path.to_string_lossy())?;
    object.maybe("partition_id", report.id)?;
    manifest_json(object.field("manifest")?, &report.manifest)?;
    let mut offsets = Object::begin(object.field("consumer_offsets")?)?;
    offsets.text("state", report.table.word())?;
    slots_json(&mut offsets, &report.table)?;
    let entries = report.table.value().map(|table| table.entries.len() as u64);
    offsets.maybe("entries", entries)?;
    offsets.maybe("incarnation", report.table.value().map(|table| table.incarnation))?;
    offsets.number("reference_files", report.reference.files)?;
    offsets.end()?;
    for (name, list) in [("holes", &report.holes), ("overlaps", &report.overlaps)] {
        let mut items = List::begin(object.field(name)?)?;
        for Offsets { from, to } in list {
            let mut item = Object::begin(items.item()?)?;
            item.number("from", *from)?;
            item.maybe("to", *to)?;
            item.end()?;
        }
        items.end()?;
    }
    let mut ignored = List::begin(object.field("ignored")?)?;
    for line in report.ignored.iter().take(LISTED_MAX) {
        crate::json::text(ignored.item()?, line)?;
    }
    ignored.end()?;
    let mut findings = List::begin(object.field("findings")?)?;
    for (what, detail) in report.findings.iter().take(LISTED_MAX) {
        let mut item = Object::begin(findings.item()?)?;
        item.text("finding", what)?;
        item.text("detail", detail)?;
        item.end()?;
    }
    findings.end()?;
    object.end()
}

fn manifest_json(out: Out<'_>, stored: &Stored<Manifest>) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    object.text("state", stored.word())?;
    slots_json(&mut object, stored)?;
    if let Some(manifest) = stored.value() {
        object.number("incarnation", manifest.incarnation)?;
        object.number("first_offset", manifest.first_offset)?;
        object.number("adopted_end", manifest.adopted_end)?;
        let mut mark = Object::begin(object.field("mark")?)?;
        mark.number("segment", manifest.mark.segment)?;
        mark.number("position", manifest.mark.position)?;
        mark.number("next_offset", manifest.mark.next_offset)?;
        mark.number("last_timestamp", manifest.mark.last_timestamp)?;
        mark.end()?;
    }
    object.end()
}

fn slots_json<T>(object: &mut Object<'_>, stored: &Stored<T>) -> io::Result<()> {
    let mut slots = List::begin(object.field("slots")?)?;
    if let Stored::Slots(both, _) = stored {
        for slot in both {
            let mut item = Object::begin(slots.item()?)?;
            match slot {
                SlotIs::Empty => item.text("state", "empty")?,
                SlotIs::Valid(sequence) => {
                    item.text("state", "valid")?;
                    item.number("sequence", *sequence)?;
                }
                SlotIs::Damaged(why) => {
                    item.text("state", "damaged")?;
                    item.text("detail", why)?;
                }
            }
            item.end()?;
        }
    }
    slots.end()
}

/// Writes what stands in a data directory as one object of the document's `data`.
pub(crate) fn home_json(out: Out<'_>, home: &Home) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    object.text("path", &home.path.to_string_lossy())?;
    object.text("lock", home.lock.word())?;
    let mut clock = Object::begin(object.field("clock")?)?;
    clock.text("state", home.clock.word())?;
    slots_json(&mut clock, &home.clock)?;
    clock.maybe("ceiling_us", home.clock.value().map(|clock| clock.ceiling_us))?;
    clock.end()?;
    object.maybe("catalog_bytes", home.catalog_bytes)?;
    object.end()
}

/// For people: a line for each thing that is not as it should be, and none else.
impl Display for PartitionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = Shown(&self.path);
        for (what, list) in [("lost or unreadable", &self.holes), ("held twice", &self.overlaps)] {
            for Offsets { from, to } in list {
                match to {
                    Some(to) => {
                        writeln!(f, "          {path}: offsets {from} to {} {what}", to - 1)?
                    }
                    None => writeln!(f, "          {path}: offsets from {from} on {what}")?,
                }
            }
        }
        for (_, detail) in self.findings.iter().take(LISTED_MAX) {
            writeln!(f, "          {path}: finding: {detail}")?;
        }
        Ok(())
    }
}

/// For people: nothing where all is well.
impl Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = Shown(&self.path);
        for trouble in self.clock.troubles() {
            writeln!(f, "          {path}: finding: the clock record's {trouble}")?;
        }
        if self.catalog_bytes.is_none() {
            writeln!(f, "          {path}: finding: an engine's directory without a catalog")?;
        }
        Ok(())
    }
}
