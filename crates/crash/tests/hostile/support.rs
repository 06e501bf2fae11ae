//! What the tests here share: directories, mounted disks, and an engine with traffic on one.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use corelog::{Client, Engine, Limits, PartitionId};
use corelog_crash::history::{Crash, History};
use corelog_crash::hostile::{Counts, Disk, Rule, Seen, Traffic, read_all};
use tempfile::TempDir;

pub(crate) use corelog_crash::hostile::{FSYNC, PLAIN, builder};

/// What nothing here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A disk that misbehaves on demand, with directories of its own.
pub(crate) struct Mounted {
    /// First, so that it is unmounted before the directories go.
    pub(crate) disk: Disk,
    /// Where the files really are.
    pub(crate) backing: PathBuf,
    /// Where they are seen.
    pub(crate) point: PathBuf,
    _dir: TempDir,
}

/// A directory below the target directory that goes when dropped.
pub(crate) fn temp_dir() -> TempDir {
    let target = env!("CARGO_TARGET_TMPDIR");
    tempfile::Builder::new().prefix("hostile-").tempdir_in(target).expect("it is writable")
}

/// An empty one.
pub(crate) fn mounted() -> Mounted {
    let dir = temp_dir();
    let (backing, point) = (dir.path().join("backing"), dir.path().join("point"));
    for dir in [&backing, &point] {
        std::fs::create_dir(dir).expect("the directory is new");
    }
    let disk = Disk::mount(&backing, &point).unwrap_or_else(|error| panic!("{error}"));
    Mounted { disk, backing, point, _dir: dir }
}

/// Limits of which many fit on a machine.
pub(crate) fn small() -> Limits {
    corelog_crash::hostile::limits()
}

/// Histories of empty partitions.
pub(crate) fn histories(seed: u64) -> Vec<(PartitionId, History)> {
    corelog_crash::hostile::histories(seed, "cargo test -p corelog-crash --test hostile")
}

/// Both topics, with the smallest segments.
pub(crate) fn create_topics(client: &Client) {
    corelog_crash::hostile::create_topics(client).expect("the topics are new");
}

/// An engine on a healthy disk, and its traffic.
pub(crate) struct Running {
    pub(crate) engine: Engine,
    pub(crate) traffic: Traffic,
    pub(crate) seen: Vec<(PartitionId, Arc<Seen>)>,
}

impl Running {
    pub(crate) fn start(dir: &std::path::Path, seed: u64) -> Running {
        let engine = builder(dir).open().expect("a healthy disk");
        let client = engine.client();
        create_topics(&client);
        let traffic = Traffic::start(&client, 0, histories(seed));
        let seen = traffic.seen();
        Running { engine, traffic, seen }
    }

    pub(crate) fn counts(&self) -> Vec<Counts> {
        self.seen.iter().map(|(_, seen)| seen.counts()).collect()
    }

    /// Waits until `reached` says so of every pair, given its partition and what it has seen since
    /// `since`. Otherwise an error that says who has not.
    pub(crate) fn wait(
        &self,
        since: &[Counts],
        reached: impl Fn(PartitionId, &Counts) -> bool,
    ) -> Result<(), String> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let now = self.counts();
            let new = now.iter().zip(since).map(|(now, then)| now.since(then));
            let behind: Vec<_> = self
                .seen
                .iter()
                .zip(new)
                .filter(|((id, _), new)| !reached(*id, new))
                .map(|((id, seen), new)| format!("{id}: {new:?} {:?}", seen.messages()))
                .collect();
            if behind.is_empty() {
                return Ok(());
            }
            if Instant::now() > patience || !self.traffic.goes_on() {
                return Err(behind.join("\n"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the traffic, closes the engine, opens it again and reads everything. `clean`: the close
    /// is to be in order.
    pub(crate) fn end(self, dir: &std::path::Path, clean: bool) {
        let Running { engine, traffic, .. } = self;
        let histories = traffic.stop().unwrap_or_else(|broken| panic!("{broken}"));
        let stats = engine.client().stats_blocking().expect("shards answer");
        assert_eq!((stats.panics, stats.panic), (0, None));
        let closed = engine.close_blocking();
        assert!(closed.is_ok() || !clean, "{closed:?}");
        let engine = builder(dir).open().expect("a healthy disk");
        assert!(engine.opened().not_clean.is_empty() || !clean, "{:?}", engine.opened());
        serves_all(&engine, histories);
        engine.close_blocking().expect("nothing is wrong");
    }
}

/// Reads everything and holds it against `histories`.
pub(crate) fn serves_all(engine: &Engine, histories: Vec<(PartitionId, History)>) {
    for (id, mut history) in histories {
        history.crashed(Crash::Kill);
        let read = read_all(&mut history, &engine.client(), id);
        read.unwrap_or_else(|broken| panic!("{broken}"));
    }
}

/// Appends of all levels go on, and polls.
pub(crate) fn unhurt(new: &Counts, times: u64) -> bool {
    new.is_unhurt(times)
}

/// The rules that were never applied.
pub(crate) fn unmet(disk: &Disk) -> Vec<Rule> {
    disk.hits().into_iter().filter(|(_, hits)| *hits == 0).map(|(rule, _)| rule).collect()
}
