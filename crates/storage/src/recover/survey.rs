//! What stands in a partition's directory.

use std::ffi::OsString;
use std::path::PathBuf;

use corelog_format::{FileKind, Mark, parse_file_name};
use corelog_io::{Disk, File, Open};

use super::table::Place as Against;
use crate::consumers::{CONSUMERS_FILE, CONSUMERS_TEMPORARY, Listed, REFERENCE_DIR};
use crate::marker::{Found, LoadError, MANIFEST_FILE, Marker};
use crate::segments::{index_path, log_path};
use crate::{OpenError, Place};

/// Directory beside the segments for what was cut or moved away.
pub(crate) const QUARANTINE_DIR: &str = "quarantine";

#[derive(Default)]
pub(super) struct Survey {
    pub(super) marker: Option<Marker>,
    pub(super) manifest_damaged: bool,
    /// First offsets of the log files, ascending.
    pub(super) logs: Vec<u64>,
    /// Log and index files of segments that were trimmed away: never served, to be removed.
    pub(super) leftovers: Vec<PathBuf>,
    pub(super) ignored: Vec<OsString>,
    pub(super) listed: Listed,
    /// Something was cut off or moved away here once, perhaps by an opening that did not come to
    /// make it durable.
    pub(super) quarantine: bool,
    /// Nothing was ever stored here; an interrupted creation counts as nothing.
    pub(super) is_new: bool,
}

impl Survey {
    /// Lists the directory and reads the manifest. How long it takes grows with the number of names
    /// alone: of the segments at most one is opened, and that one only without a manifest.
    pub(super) async fn take<D: Disk>(disk: &D, place: &Place) -> Result<Survey, OpenError> {
        let mut survey = Survey::default();
        let names = match disk.list(&place.dir).await {
            Err(error) if error.is_not_found() => return Ok(Survey { is_new: true, ..survey }),
            listed => listed?,
        };
        let mut indexes = Vec::new();
        for (name, is_no_file) in names {
            match (name.to_str().and_then(parse_file_name), is_no_file) {
                (Some((first_offset, FileKind::Log)), false) => survey.logs.push(first_offset),
                (Some((first_offset, FileKind::Index)), false) => indexes.push(first_offset),
                _ if name == MANIFEST_FILE && !is_no_file => {}
                _ if name == QUARANTINE_DIR && is_no_file => survey.quarantine = true,
                _ if name == CONSUMERS_FILE => {
                    // What is no file of that name says nothing, which whoever reads it is told.
                    survey.listed.own = true;
                    survey.ignored.extend(is_no_file.then_some(name));
                }
                _ if name == CONSUMERS_TEMPORARY && !is_no_file => {}
                _ if name == REFERENCE_DIR && is_no_file => survey.listed.reference = true,
                _ => survey.ignored.push(name),
            }
        }
        survey.logs.sort_unstable();
        survey.ignored.sort_unstable();
        match Marker::load(disk, &place.dir).await {
            Ok(Found::None) => {}
            Ok(Found::Damaged) => survey.manifest_damaged = true,
            Ok(Found::Some(marker)) => survey.marker = Some(marker),
            Err(LoadError::Io(error)) => return Err(error.into()),
            Err(LoadError::Version(path, why)) => return Err(OpenError::Manifest { path, why }),
        }
        survey.check_incarnation(place)?;
        survey.set_leftovers_apart(place, &indexes);
        survey.is_new = survey.marker.is_none()
            && !survey.manifest_damaged
            && survey.holds_nothing(disk, place).await?;
        Ok(survey)
    }

    fn check_incarnation(&self, place: &Place) -> Result<(), OpenError> {
        match &self.marker {
            Some(marker) if marker.incarnation() != place.incarnation => {
                Err(OpenError::OtherIncarnation {
                    dir: place.dir.clone(),
                    found: marker.incarnation(),
                    expected: place.incarnation,
                })
            }
            _ => Ok(()),
        }
    }

    /// What lies wholly below the first retained offset is what a trim did not come to remove.
    fn set_leftovers_apart(&mut self, place: &Place, indexes: &[u64]) {
        let start = self.first_offset();
        let kept = self.logs.partition_point(|log| *log <= start).saturating_sub(1);
        let kept = self.logs.get(kept).map_or(start, |log| start.min(*log));
        let below = |offset: &u64| *offset < kept;
        let indexes = indexes.iter().copied().filter(below);
        self.leftovers = indexes.map(|index| index_path(&place.dir, index)).collect();
        let logs = self.logs.iter().copied().filter(below);
        self.leftovers.extend(logs.map(|log| log_path(&place.dir, log)));
        self.logs.retain(|log| !below(log));
    }

    /// No log, or only an empty one of offset 0. An empty one of another name says that there was
    /// something.
    async fn holds_nothing<D: Disk>(&self, disk: &D, place: &Place) -> Result<bool, OpenError> {
        match self.logs[..] {
            [] => Ok(true),
            [0] => {
                let file = disk.open(&log_path(&place.dir, 0), Open::default()).await?;
                let len = file.len().await?;
                file.close().await?;
                Ok(len == 0)
            }
            _ => Ok(false),
        }
    }

    pub(super) fn mark(&self) -> Option<Mark> {
        self.marker.as_ref().map(Marker::mark)
    }

    /// True where `segment`'s name is durable: a mark behind the segment's first byte was stored, which
    /// follows the sync of the name. (What opening itself removes and moves, it syncs.)
    pub(super) fn is_named(&self, segment: u64) -> bool {
        self.mark().is_some_and(|mark| mark.segment == segment && mark.position > 0)
    }

    /// Where in `segment` the bytes begin that no sync is known to have covered, and the offset there.
    ///
    /// Without the manifest that was here a sync may have failed as well: then it is all of the last
    /// segment. Those before it were synced, or there would be none behind them. Files that never
    /// had a manifest are another server's: nothing is known of their syncs.
    pub(super) fn in_doubt(&self, segment: u64) -> Option<(u64, u64)> {
        match self.mark() {
            Some(mark) if mark.segment == segment => Some((mark.position, mark.next_offset)),
            Some(_) => Some((0, segment)),
            None => {
                let is_last = self.manifest_damaged && self.logs.last() == Some(&segment);
                is_last.then_some((0, segment))
            }
        }
    }

    /// First retained offset; 0 where no manifest names one.
    pub(super) fn first_offset(&self) -> u64 {
        self.start().unwrap_or(0)
    }

    /// First retained offset, where a manifest names one.
    pub(super) fn start(&self) -> Option<u64> {
        self.marker.as_ref().map(Marker::first_offset)
    }

    /// Where something stands that the mark calls synced, or not; without a mark, why there is none.
    pub(super) fn against(&self, below_mark: bool) -> Against {
        match (self.marker.is_some(), below_mark) {
            (true, true) => Against::Below,
            (true, false) => Against::Above,
            (false, _) if self.manifest_damaged => Against::ManifestLost,
            (false, _) => Against::NoManifest,
        }
    }
}
