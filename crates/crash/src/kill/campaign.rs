//! Many rounds: directories, counts, and the evidence of what went wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use crate::content::Content;
use crate::history::{Broken, Crash, History};
use crate::judge::{Checks, Verdict, judge};
use crate::ledger::{Event, Ledger};
use crate::runtime;

use super::life::Life;
use super::partitions;
use super::plan::{LIVES_MAX, Moment, Plan, Planned};
use super::watch;

/// Rounds on one directory; then the next begins empty, with the next seed.
const ROUNDS_PER_DIRECTORY: u64 = 8;

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The program that [`Life`]s are run by: `exe life ARGUMENTS`.
    pub exe: PathBuf,
    /// Where the data directory is made. What is there is left when a promise was broken.
    pub dir: PathBuf,
    /// Seed of the first directory.
    pub seed: u64,
    /// Rounds at most.
    pub rounds: u64,
    /// No round begins after this.
    pub until: Option<Instant>,
    /// Partitions of each topic.
    pub partitions: u32,
    /// Shards of the engine that is killed.
    pub shards: usize,
    /// Producers of each kind.
    pub producers: u32,
    /// Keep a copy of the data directory as the killed process left it, of the last round.
    pub copies: bool,
}

/// What a campaign has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rounds.
    pub rounds: u64,
    /// Lives that ended at each kind of moment.
    pub moments: BTreeMap<&'static str, u64>,
    /// Batches that were offered, and answered.
    pub offered: u64,
    /// Batches that were answered.
    pub acked: u64,
    /// Changes of the catalog, stored offsets and deletions of segments that were answered.
    pub changed: u64,
    /// Deletions of segments that found some.
    pub trimmed: u64,
    /// Batches that were read and compared.
    pub read: u64,
    /// Partitions in which an opening found something above the durable mark.
    pub recovered: u64,
    /// Bytes of interrupted writes that were cut.
    pub cut_bytes: u64,
    /// Files that went to quarantine.
    pub quarantined: u64,
}

/// Why a campaign ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// A promise was broken. The directory holds the evidence.
    Broken(Box<Broken>),
    /// The rig itself could not go on.
    Io(PathBuf, io::Error),
}

/// One directory and its rounds.
struct Generation<'a> {
    campaign: &'a Campaign,
    seed: u64,
    history: History,
}

impl Campaign {
    /// Runs it.
    ///
    /// # Errors
    /// [`Failure`], with what was done before.
    pub fn run(&self) -> (Summary, Result<(), Failure>) {
        let mut summary = Summary::default();
        let mut directory = 0;
        while summary.rounds < self.rounds && self.has_time() {
            if let Err(failure) = self.directory(directory, &mut summary) {
                return (summary, Err(failure));
            }
            directory += 1;
        }
        (summary, Ok(()))
    }

    fn has_time(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn copy(&self) -> PathBuf {
        self.dir.join("killed")
    }

    fn ledger(&self) -> PathBuf {
        self.dir.join("ledger")
    }

    /// The rounds of one directory.
    fn directory(&self, number: u64, summary: &mut Summary) -> Result<(), Failure> {
        self.clear()?;
        let data = self.data();
        fs::create_dir_all(&data).map_err(|error| Failure::Io(data.clone(), error))?;
        let mut generation = Generation::new(self, self.seed.wrapping_add(number));
        for round in 0..ROUNDS_PER_DIRECTORY {
            if summary.rounds == self.rounds || !self.has_time() {
                break;
            }
            generation.round(round, summary)?;
            summary.rounds += 1;
        }
        self.clear()
    }

    /// Removes what a directory's rounds have left.
    fn clear(&self) -> Result<(), Failure> {
        remove(&self.data())?;
        remove(&self.copy())?;
        match fs::remove_file(self.ledger()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::Io(self.ledger(), error))
            }
            _ => Ok(()),
        }
    }

    /// Keeps what was said: now, since the judge might take us along.
    fn say(&self, text: &str) -> Result<(), Failure> {
        let path = self.ledger();
        let file = fs::OpenOptions::new().create(true).append(true).open(&path);
        let said = file.and_then(|mut file| file.write_all(text.as_bytes()));
        said.map_err(|error| Failure::Io(path, error))
    }

    /// The command that begins at this directory and ends with this round.
    fn replay(&self, seed: u64, round: u64) -> String {
        let Campaign { partitions, shards, producers, .. } = self;
        format!(
            "corelog-kill --dir DIR --copies --seed {seed} --rounds {} --partitions {partitions} \
             --shards {shards} --producers {producers} {} (moments are drawn again, chance remains: \
             repeat it)",
            round + 1,
            runtime::flag()
        )
    }
}

fn remove(dir: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::Io(dir.to_owned(), error))
        }
        _ => Ok(()),
    }
}

impl Generation<'_> {
    fn new(campaign: &Campaign, seed: u64) -> Generation<'_> {
        let mut history = History::new(Content::new(seed), "");
        for (id, enforce_fsync) in partitions(campaign.partitions) {
            history.add_partition(id, enforce_fsync);
        }
        Generation { campaign, seed, history }
    }

    fn round(&mut self, round: u64, summary: &mut Summary) -> Result<(), Failure> {
        let plan = Plan::draw(self.seed, round);
        self.history.set_replay(self.campaign.replay(self.seed, round));
        self.campaign.say(&format!("# round {round}: {plan:?}\n"))?;
        for (number, life) in (round * LIVES_MAX as u64..).zip(&plan.lives) {
            self.live(number, *life, summary)?;
        }
        self.history.crashed(Crash::Kill);
        if self.campaign.copies {
            self.copy_data()?;
        }
        let checks = Checks { shards: plan.judge_shards, append: true, reopen: plan.reopen };
        let verdict = self.judged(checks)?;
        summary.read += verdict.batches;
        summary.recovered += verdict.recovered;
        summary.cut_bytes += verdict.cut_bytes;
        summary.quarantined += verdict.quarantined;
        Ok(())
    }

    /// The judge, in a thread: its engine may panic or hang.
    fn judged(&mut self, checks: Checks) -> Result<Verdict, Broken> {
        let (history, data) = (&mut self.history, self.campaign.data());
        let hangs = history.broken("a judge that comes to an end", "it hangs");
        let panicked = history.broken("an engine that does not panic", "a panic, shown above");
        thread::scope(|scope| {
            let (done, ended) = channel::<()>();
            let judging = scope.spawn(move || {
                let _done = done;
                judge(history, &data, checks)
            });
            if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(watch::PATIENCE) {
                // It can neither be stopped nor left.
                println!("{hangs}");
                std::process::exit(1);
            }
            judging.join().unwrap_or(Err(panicked))
        })
    }

    fn live(
        &mut self,
        number: u64,
        planned: Planned,
        summary: &mut Summary,
    ) -> Result<(), Failure> {
        let Campaign { exe, partitions, shards, producers, .. } = self.campaign;
        let Planned { moment, only_opens } = planned;
        let life = Life {
            data: self.campaign.data(),
            seed: self.seed,
            life: number as u32,
            partitions: *partitions,
            shards: *shards,
            producers: *producers,
            close_after: moment.close_after(),
            only_open: only_opens,
        };
        let lived = watch::run(exe, &life, moment);
        let lived = lived.map_err(|error| Failure::Io(exe.clone(), error))?;
        self.campaign.say(&lived.text)?;
        summary.note(planned, lived.had_opened, &lived.ledger);
        self.history.record(&lived.ledger)?;
        match lived.wrong {
            None => Ok(()),
            Some(wrong) => {
                let expected = "a process that lives until it is killed or has closed";
                Err(self.history.broken(expected, wrong).into())
            }
        }
    }

    /// The directory as the killed process left it, for whoever looks for the reason.
    fn copy_data(&self) -> Result<(), Failure> {
        let (from, to) = (self.campaign.data(), self.campaign.copy());
        remove(&to)?;
        let copied = Command::new("cp").args(["-a", "--"]).arg(&from).arg(&to).status();
        match copied.map_err(|error| Failure::Io(to.clone(), error))? {
            status if status.success() => Ok(()),
            status => Err(Failure::Io(to, io::Error::other(format!("cp: {status}")))),
        }
    }
}

impl Summary {
    fn note(&mut self, life: Planned, had_opened: bool, ledger: &Ledger) {
        let name = match (life.moment, life.only_opens, had_opened) {
            (Moment::Opening(_), true, false) => "while recovering",
            (Moment::Opening(_), true, true) => "after recovery",
            (Moment::Opening(_), false, true) => "just opened",
            _ => life.moment.name(),
        };
        *self.moments.entry(name).or_default() += 1;
        for entry in &ledger.entries {
            self.offered += u64::from(matches!(entry.event, Event::Offered { .. }));
            self.changed += u64::from(matches!(entry.event, Event::Changed { .. }));
            self.trimmed += u64::from(matches!(entry.event, Event::Changed { start: 1.., .. }));
            self.acked += u64::from(matches!(entry.event, Event::Acked { .. }));
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { rounds, moments, offered, acked, changed, read, .. } = self;
        let Summary { recovered, cut_bytes, quarantined, trimmed, .. } = self;
        writeln!(f, "{rounds} rounds")?;
        for (name, count) in moments {
            writeln!(f, "  {count:6} lives ended {name}")?;
        }
        writeln!(f, "  {offered} batches offered, {acked} answered, {read} read and compared")?;
        writeln!(f, "  {changed} changes of the catalog, stored offsets and trims answered")?;
        writeln!(f, "  {trimmed} trims behind which a log begins later")?;
        writeln!(f, "  {recovered} partitions had something above the mark")?;
        write!(f, "  {cut_bytes} bytes cut, {quarantined} files in quarantine")
    }
}

impl Failure {
    /// Whether the engine is to blame.
    pub fn is_broken_promise(&self) -> bool {
        matches!(self, Failure::Broken(_))
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Failure {
        Failure::Broken(Box::new(broken))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Broken(broken) => broken.fmt(f),
            Failure::Io(path, error) => {
                write!(f, "the rig cannot go on: {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Broken(broken) => Some(broken),
            Failure::Io(_, error) => Some(error),
        }
    }
}
