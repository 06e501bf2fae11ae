//! What stands in a partition's directory.

use std::ffi::OsString;
use std::path::PathBuf;

use corelog_format::{FileKind, Mark, parse_file_name};
use corelog_io::{Disk, File, Open};

use crate::marker::{Found, LoadError, MANIFEST_FILE, Marker};
use crate::segments::{index_path, log_path};
use crate::{OpenError, Place};

/// Directory beside the segments for what was cut or moved away.
pub(crate) const QUARANTINE_DIR: &str = "quarantine";

pub(crate) struct Survey {
    pub(crate) marker: Option<Marker>,
    pub(crate) manifest_damaged: bool,
    /// First offsets of the log files, ascending.
    pub(crate) logs: Vec<u64>,
    /// Log and index files of segments that were trimmed away: never served, to be removed.
    pub(crate) leftovers: Vec<PathBuf>,
    pub(crate) ignored: Vec<OsString>,
    /// Some log file holds bytes.
    has_bytes: bool,
}

impl Survey {
    pub(crate) async fn take<D: Disk>(disk: &D, place: &Place) -> Result<Survey, OpenError> {
        let mut survey = Survey {
            marker: None,
            manifest_damaged: false,
            logs: Vec::new(),
            leftovers: Vec::new(),
            ignored: Vec::new(),
            has_bytes: false,
        };
        let names = match disk.list(&place.dir).await {
            Err(error) if error.is_not_found() => return Ok(survey),
            listed => listed?,
        };
        let mut indexes = Vec::new();
        for (name, is_dir) in names {
            match (name.to_str().and_then(parse_file_name), is_dir) {
                (Some((first_offset, FileKind::Log)), false) => survey.logs.push(first_offset),
                (Some((first_offset, FileKind::Index)), false) => indexes.push(first_offset),
                _ if name == MANIFEST_FILE && !is_dir => {}
                _ if name == QUARANTINE_DIR && is_dir => {}
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
        for first_offset in &survey.logs {
            let file = disk.open(&log_path(&place.dir, *first_offset), Open::default()).await?;
            survey.has_bytes = file.len().await? > 0;
            file.close().await?;
            if survey.has_bytes {
                break;
            }
        }
        Ok(survey)
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

    /// Nothing was ever stored here; an interrupted creation counts as nothing. An empty file of
    /// another name than offset 0 says that there was something.
    pub(crate) fn is_new(&self) -> bool {
        let bare = self.marker.is_none() && !self.manifest_damaged && !self.has_bytes;
        bare && self.logs.iter().all(|first_offset| *first_offset == 0)
    }

    pub(crate) fn mark(&self) -> Option<Mark> {
        self.marker.as_ref().map(Marker::mark)
    }

    pub(crate) fn first_offset(&self) -> u64 {
        self.marker.as_ref().map_or(0, Marker::first_offset)
    }
}
