//! Opening partitions: the owner shard makes or recovers the directory; one that belongs to another
//! incarnation is moved out of the way first.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use corelog_io::IoError;
use corelog_shard::{
    Call, Client, ClientLimits, ControlError, FailureReason, Follow, PartitionFailure, PartitionId,
    Shards, Unavailable,
};
use corelog_storage::{OpenError, OpenReport, Place, PollQuery};

use crate::catalog::Entry;
use crate::clock_keeper::ClockKeeper;
use crate::data_dir::DataDir;
use crate::poll::Poll;
use crate::progress::Meter;

/// Openings on their way at a time, all shards together; each shard limits its own further.
const IN_FLIGHT_MAX: usize = 512;
/// How long to wait where a mailbox has no room.
const BUSY_WAIT: Duration = Duration::from_millis(1);
/// A process that was killed holds its segments' locks until the kernel has ended its last writes,
/// which may be after its death. So long that is waited for, and so often looked.
const LOCKED_PATIENCE: Duration = Duration::from_secs(10);
const LOCKED_WAIT: Duration = Duration::from_millis(5);

/// Opens partitions and sees to what an opening needs from outside of its shard. For threads that
/// may block.
pub(crate) struct Opener {
    dir: DataDir,
    shards: Shards,
    client: Client,
    clock: Arc<ClockKeeper>,
    /// The clock record is younger than the data: it says nothing about old timestamps.
    clock_is_new: bool,
    /// Incarnations of all partitions that there are.
    live: Mutex<HashSet<u64>>,
}

/// How the opening of one partition went.
pub(crate) type Opened = (PartitionId, Result<OpenReport, ControlError>);

impl Opener {
    pub(crate) fn new(
        dir: DataDir,
        shards: Shards,
        clock: Arc<ClockKeeper>,
        clock_is_new: bool,
    ) -> Opener {
        let client = shards.client(&ClientLimits::default());
        Opener { dir, shards, client, clock, clock_is_new, live: Mutex::default() }
    }

    /// Opens `entries` side by side, and tells how each went, in the order given. A partition that
    /// cannot be opened never stops the others. Where `meter` is stopped the rest is left out.
    pub(crate) fn open_all(&self, entries: Vec<Entry>, meter: &Meter) -> Vec<Opened> {
        meter.expect(entries.len());
        let mut results = Vec::with_capacity(entries.len());
        self.live().extend(entries.iter().map(|entry| entry.incarnation));
        let mut flying: VecDeque<(Entry, Call<OpenReport, ControlError>)> = VecDeque::new();
        for entry in entries {
            if flying.len() == IN_FLIGHT_MAX
                && let Some((entry, call)) = flying.pop_front()
            {
                results.push(self.land(&entry, call, meter));
            }
            if meter.is_stopped() {
                break;
            }
            let call = self.begin(&entry);
            flying.push_back((entry, call));
        }
        for (entry, call) in flying {
            results.push(self.land(&entry, call, meter));
        }
        results
    }

    fn begin(&self, entry: &Entry) -> Call<OpenReport, ControlError> {
        let place = Place {
            root: self.dir.root().to_owned(),
            dir: self.dir.partition(entry.id),
            partition_id: entry.id.partition,
            incarnation: entry.incarnation,
        };
        loop {
            let call = self.shards.open(entry.id, place.clone(), entry.config.clone());
            match call.refusal() {
                Some(ControlError::Unavailable(Unavailable::Busy)) => thread::sleep(BUSY_WAIT),
                _ => return call,
            }
        }
    }

    fn land(&self, entry: &Entry, call: Call<OpenReport, ControlError>, meter: &Meter) -> Opened {
        let mut result = wait(call, || self.begin(entry));
        let patience = Instant::now() + LOCKED_PATIENCE;
        while matches!(open_error(&result), Some(OpenError::Locked { .. }))
            && Instant::now() < patience
            && !meter.is_stopped()
        {
            thread::sleep(LOCKED_WAIT);
            result = wait(self.begin(entry), || self.begin(entry));
        }
        if let Some(&OpenError::OtherIncarnation { found, .. }) = open_error(&result)
            && self.is_over(entry, found)
        {
            result = match self.dir.to_trash(entry.id, found) {
                Ok(()) => wait(self.begin(entry), || self.begin(entry)),
                Err(error) => Err(unopened(entry.id, error)),
            };
        }
        // A crash may have kept it from hearing of the last change.
        if result.is_ok() {
            self.tell(entry.id, &entry.follow);
        }
        if let Ok(report) = &result
            && (report.adopted || self.clock_is_new)
        {
            self.lift_clock(entry.id);
        }
        meter.count();
        (entry.id, result)
    }

    /// Tells a partition of its topic. One that is not served is told when it is opened.
    pub(crate) fn tell(&self, id: PartitionId, follow: &Follow) {
        while let Err(Unavailable::Busy) = self.shards.follow(id, follow.clone()) {
            thread::sleep(BUSY_WAIT);
        }
    }

    /// True where nothing of incarnation `found` is wanted any more: it is an earlier one than that
    /// of `entry`, and no other partition's. A later one says that the catalog is an old copy, and
    /// another's that files changed places: then nobody but a person can tell what belongs where.
    fn is_over(&self, entry: &Entry, found: u64) -> bool {
        found < entry.incarnation && !self.live().contains(&found)
    }

    /// These lives are over.
    pub(crate) fn forget(&self, incarnations: impl IntoIterator<Item = u64>) {
        let mut live = self.live();
        for incarnation in incarnations {
            live.remove(&incarnation);
        }
    }

    fn live(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stamps must come behind what is stored. Ours are below the clock record; those of files that
    /// came from elsewhere need not be. Where the record cannot be written now the clock is lifted
    /// all the same, that is counted, and new stamps wait until it can: the partition is served.
    fn lift_clock(&self, id: PartitionId) {
        let last: PollQuery = Poll::last(1).max_bytes(1).into();
        // What cannot be read has no stamp that could be compared; polls tell about it.
        let Ok(records) = self.client.poll(id, last).wait() else { return };
        let stamps = records.batches().filter_map(Result::ok).map(|b| b.header().base_timestamp);
        if let Some(last) = stamps.max() {
            let _ = self.clock.lift(last);
        }
    }
}

/// Waits for `call`; one that a full mailbox refused on its way is made again.
fn wait(
    mut call: Call<OpenReport, ControlError>,
    again: impl Fn() -> Call<OpenReport, ControlError>,
) -> Result<OpenReport, ControlError> {
    loop {
        match call.wait() {
            Err(ControlError::Unavailable(Unavailable::Busy)) => {
                thread::sleep(BUSY_WAIT);
                call = again();
            }
            other => return other,
        }
    }
}

/// Why storage could not open the partition, where that is the reason.
fn open_error(result: &Result<OpenReport, ControlError>) -> Option<&OpenError> {
    match result {
        Err(ControlError::Unavailable(Unavailable::PartitionFailed(failure))) => {
            match &failure.reason {
                FailureReason::Open(error) => Some(error),
                _ => None,
            }
        }
        _ => None,
    }
}

pub(crate) fn unopened(partition: PartitionId, error: IoError) -> ControlError {
    let reason = FailureReason::Open(Arc::new(OpenError::Io(error)));
    Unavailable::PartitionFailed(PartitionFailure { partition, reason }).into()
}
