//! What follows a change of the catalog: partitions are closed, opened, and what is left of them
//! goes. For threads that may block. Which steps there are is `catalog/protocol.rs`'s.

use std::fs;
use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use corelog_format::Manifest;
use corelog_io::IoError;
use corelog_shard::{Call, ControlError, PartitionId, Shards, Unavailable};
use corelog_storage::MANIFEST_FILE;

use crate::catalog::{ChangeError, Ended, Entry, Model, Plan, Step, after, opening};
use crate::data_dir::DataDir;
use crate::opening::{Opened, Opener, unopened};
use crate::progress::Meter;
use crate::trash::Trash;

/// Closings on their way at a time.
const IN_FLIGHT_MAX: usize = 512;
/// How long to wait before a full mailbox is asked again, or a partition that is being opened.
const BUSY_WAIT: Duration = Duration::from_millis(1);
/// A partition that is being opened or reopened is closed behind that; so long it is waited for.
const CLOSE_PATIENCE: Duration = Duration::from_secs(60);
/// Both slots of a manifest.
const MANIFEST_BYTES: u64 = 8192;

/// What becomes of a directory whose manifest says nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    /// It was this partition's until now. Left there it would be taken for the log of the next life.
    Goes,
    /// It may be anybody's.
    Stays,
}

/// Makes partitions follow the catalog.
pub(crate) struct Works {
    dir: DataDir,
    shards: Shards,
    opener: Opener,
    trash: Trash,
}

impl Works {
    pub(crate) fn new(dir: DataDir, shards: Shards, opener: Opener, trash: Trash) -> Works {
        Works { dir, shards, opener, trash }
    }

    /// Opens everything that is in the catalog, and moves away what is left of what is not. Tells
    /// how each opening went. What cannot be moved away is no harm: the next opening tries again.
    pub(crate) fn open_catalog(&self, model: &Model, meter: &Meter) -> Vec<Opened> {
        let found = self.dir.partitions().unwrap_or_default();
        let orphans = found.into_iter().filter(|id| !model.has(*id));
        let steps = opening(model, orphans.map(|id| (id, self.life_of(id))));
        let mut entries = Vec::new();
        for step in steps {
            match step {
                Step::MoveAway(ended) => drop(self.move_away(ended, Unreadable::Stays)),
                Step::Open(entry) => entries.push(entry),
                Step::Close(_) => {}
            }
        }
        let opened = self.opener.open_all(entries, meter);
        self.trash.empty();
        opened
    }

    /// Does what `plan`, which is in the catalog, asks for. All of it, whatever fails; the first
    /// failure is the error.
    pub(crate) fn carry_out(&self, plan: &Plan) -> Result<(), ChangeError> {
        let (mut closes, mut begun, mut failed) = (Vec::new(), Vec::new(), None);
        self.opener.forget(plan.ended.iter().map(|ended| ended.incarnation));
        for step in after(plan) {
            match step {
                Step::Close(id) => closes.push(id),
                Step::MoveAway(ended) => {
                    self.close_all(std::mem::take(&mut closes));
                    if let Err(error) = self.move_away(ended, Unreadable::Goes) {
                        let (partition, why) = (ended.id, unopened(ended.id, error));
                        failed.get_or_insert(ChangeError::Partition { partition, why });
                    }
                }
                Step::Open(entry) => begun.push(entry),
            }
        }
        for (partition, opened) in self.opener.open_all(begun, &Meter::default()) {
            if let Err(why) = opened {
                failed.get_or_insert(ChangeError::Partition { partition, why });
            }
        }
        for (partition, follow) in &plan.follows {
            self.opener.tell(*partition, follow);
        }
        if !plan.ended.is_empty() {
            self.trash.empty();
        }
        failed.map_or(Ok(()), Err)
    }

    /// Opens `entries`, and tells how each went.
    pub(crate) fn open_all(&self, entries: Vec<Entry>) -> Vec<Opened> {
        self.opener.open_all(entries, &Meter::default())
    }

    /// Ends the emptying of the trash.
    pub(crate) fn close(&self) {
        self.trash.close();
    }

    /// Takes partitions out of service. How a closing went does not matter: their data goes.
    fn close_all(&self, ids: Vec<PartitionId>) {
        for run in ids.chunks(IN_FLIGHT_MAX) {
            let calls: Vec<_> = run.iter().map(|id| (*id, self.shards.close(*id))).collect();
            for (id, call) in calls {
                self.close_one(id, call);
            }
        }
    }

    fn close_one(&self, id: PartitionId, mut call: Call<(), ControlError>) {
        let patience = Instant::now() + CLOSE_PATIENCE;
        while let Err(error) = call.wait() {
            let again = match error {
                ControlError::Unavailable(Unavailable::Busy) => true,
                ControlError::InUse(_) => Instant::now() < patience,
                _ => false,
            };
            if !again {
                break;
            }
            thread::sleep(BUSY_WAIT);
            call = self.shards.close(id);
        }
    }

    fn move_away(&self, ended: Ended, unreadable: Unreadable) -> Result<(), IoError> {
        // The id may have a younger life already, or files that somebody else put there.
        let goes = match self.life_of(ended.id) {
            Some(life) => life == ended.incarnation,
            None => unreadable == Unreadable::Goes,
        };
        if goes {
            self.dir.to_trash(ended.id, ended.incarnation)?;
            self.dir.remove_empty_above(ended.id);
        }
        Ok(())
    }

    /// The life that the manifest in a partition's directory names.
    fn life_of(&self, id: PartitionId) -> Option<u64> {
        let path = self.dir.partition(id).join(MANIFEST_FILE);
        let mut slots = Vec::new();
        let read = fs::File::open(&path)
            .and_then(|file| file.take(MANIFEST_BYTES).read_to_end(&mut slots));
        read.ok()?;
        let (a, b) = slots.split_at_checked(MANIFEST_BYTES as usize / 2)?;
        Manifest::pick(a, b).ok()?.map(|(manifest, _)| manifest.incarnation)
    }
}
