//! Many rounds of a running engine on a disk that misbehaves at random times, from a seed.
//!
//! A round is one data directory and some lives of an engine. In each, producers and consumers of
//! every partition go on through trouble and calm, by turns; some openings and some closes are in
//! trouble, too. What is demanded: nothing acknowledged is lost, nothing hangs when the trouble has
//! ended, appends of all levels and polls go on again by themselves or after reopening, nothing
//! panics, and errors say what the system said and what to do.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use corelog::{Client, Engine, PartitionId};

use super::fs::Disk;
use super::rules::Answer;
use super::stage::{builder, create_topics, histories};
use super::traffic::{Counts, Seen, Traffic, read_all};
use super::trouble::{self, Trouble};
use crate::history::{Crash, History};
use crate::random::Random;
use crate::runtime;

/// Calm that is not back so long after the trouble's end never comes.
const PATIENCE: Duration = Duration::from_secs(30);
/// A round takes a few seconds; one that takes so long hangs.
const ROUND_MAX: Duration = Duration::from_secs(240);
/// What an error tells one to do.
const ACTIONS: &[&str] = &["retry", "reopen", "again"];

type Histories = Vec<(PartitionId, History)>;

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// Where the disk is mounted (`point`), its files are (`backing`) and what was done in a round is
    /// said (`log`). All is left when a promise was broken, or when the round hangs.
    pub dir: PathBuf,
    /// Seed of the first round; each next one has the next seed.
    pub seed: u64,
    /// Rounds at most.
    pub rounds: u64,
    /// No round begins after this.
    pub until: Option<Instant>,
}

/// What a campaign has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rounds.
    pub rounds: u64,
    /// Times of trouble under a running engine.
    pub troubles: u64,
    /// Those of an opening, and of a close.
    pub at_the_ends: u64,
    /// Operations that a rule was applied to.
    pub hits: u64,
    /// Appends that were acknowledged.
    pub acked: u64,
    /// Appends that were refused: nothing was stored.
    pub refused: u64,
    /// Appends that were answered `Poisoned`.
    pub poisoned: u64,
    /// Partitions that were reopened, and read.
    pub reopened: u64,
    /// Polls that were answered with an error of the device.
    pub poll_errors: u64,
    /// Openings of an engine that were refused, clearly.
    pub unopened: u64,
}

/// Why a campaign ended early.
#[derive(Debug)]
pub struct Failure {
    seed: u64,
    what: String,
    /// What was done in this round, a line each.
    log: String,
    /// The engine is to blame, not the machine.
    is_broken_promise: bool,
}

impl Campaign {
    /// Runs it.
    ///
    /// # Errors
    /// The first [`Failure`], with what was done before.
    pub fn run(&self) -> (Summary, Result<(), Failure>) {
        let mut summary = Summary::default();
        for seed in self.seed.. {
            let is_late = self.until.is_some_and(|until| Instant::now() >= until);
            if summary.rounds == self.rounds || is_late {
                break;
            }
            let dirs = ["backing", "point"].map(|name| self.dir.join(name));
            let made = dirs.iter().try_for_each(|dir| clear(dir));
            let disk = made.and_then(|()| Disk::mount(&dirs[0], &dirs[1]));
            let disk = match disk {
                Ok(disk) => disk,
                Err(error) => return (summary, Err(Failure::of_rig(seed, &error))),
            };
            let log = self.dir.join("log");
            let mut round = match Round::new(&disk, &dirs[1], &log, seed) {
                Ok(round) => round,
                Err(error) => return (summary, Err(Failure::of_rig(seed, &error))),
            };
            let watch = disk.watch(ROUND_MAX, format!("the round of seed {seed}"));
            let done = round.run(&mut summary);
            drop(watch);
            summary.hits += disk.hits().iter().map(|(_, hits)| hits).sum::<u64>();
            if let Err(what) = done {
                let log = fs::read_to_string(&log).unwrap_or_default();
                return (summary, Err(Failure { seed, what, log, is_broken_promise: true }));
            }
            summary.rounds += 1;
        }
        (summary, Ok(()))
    }
}

/// An empty directory.
fn clear(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(dir),
    }
}

/// One data directory.
struct Round<'a> {
    disk: &'a Disk,
    dir: &'a Path,
    seed: u64,
    random: Random,
    /// What was done, for the report: also where the round hangs.
    log: fs::File,
    /// The system's errors that were answered: those that messages may name.
    errors: BTreeSet<String>,
}

impl<'a> Round<'a> {
    fn new(disk: &'a Disk, dir: &'a Path, log: &Path, seed: u64) -> io::Result<Round<'a>> {
        let random = Random::of(&[seed, 0x4057]);
        let log = fs::File::create(log)?;
        Ok(Round { disk, dir, seed, random, log, errors: BTreeSet::new() })
    }

    fn run(&mut self, summary: &mut Summary) -> Result<(), String> {
        let replay = format!(
            "corelog-hostile --dir DIR --seed {} --rounds 1 {}",
            self.seed,
            runtime::flag()
        );
        let mut known = histories(self.seed, &replay);
        for life in 0..self.random.between(1, 3) as u32 {
            known = self.life(life, known, summary)?;
        }
        // In the end nothing is wrong, so nothing may be.
        let engine = self.open(false, summary)?;
        self.recover(&engine, &mut known)?;
        engine.close_blocking().map_err(|error| format!("the last close: {error}"))
    }

    fn life(
        &mut self,
        life: u32,
        mut known: Histories,
        summary: &mut Summary,
    ) -> Result<Histories, String> {
        self.note(format!("life {life}"));
        let in_trouble = life > 0 && self.random.once_in(2);
        let engine = self.open(in_trouble, summary)?;
        let client = engine.client();
        create_topics(&client).map_err(|error| format!("topics on a healthy disk: {error}"))?;
        self.recover(&engine, &mut known)?;
        let running = Running::start(&client, life, known);
        let mut done = running.until_calm(&running.counts());
        for _ in 0..self.random.between(2, 6) {
            if done.is_ok() {
                let trouble = trouble::drawn(&mut self.random);
                done = self.trouble(&running, &trouble);
                summary.troubles += 1;
            }
        }
        running.traffic.may_reopen(true);
        for (counts, (_, seen)) in running.counts().iter().zip(&running.seen) {
            summary.add(counts);
            done = done.and_then(|()| self.are_clear(&seen.messages()));
        }
        // A pair that ended early knows why.
        let stopped = running.traffic.stop();
        let known = stopped.map_err(|broken| broken.to_string())?;
        done?;
        let stats = client.stats_blocking().map_err(|error| format!("stats: {error}"))?;
        if let Some(panic) = stats.panic {
            return Err(format!("{} panics, the last: {panic}", stats.panics));
        }
        drop(client);
        self.close(engine, summary)?;
        Ok(known)
    }

    /// A time of trouble, until everything goes on.
    fn trouble(&mut self, running: &Running, trouble: &Trouble) -> Result<(), String> {
        self.begin(trouble);
        running.traffic.may_reopen(trouble.reopens);
        thread::sleep(trouble.lasts);
        self.disk.end();
        running.traffic.may_reopen(true);
        running.until_calm(&running.counts())
    }

    fn begin(&mut self, trouble: &Trouble) {
        self.note(trouble.to_string());
        for rule in &trouble.rules {
            if let Answer::Errno(errno) | Answer::Held { then: Some(errno) } = rule.answer {
                self.errors.insert(io::Error::from_raw_os_error(errno).to_string());
            }
        }
        self.disk.begin(&trouble.rules);
    }

    fn note(&mut self, what: String) {
        // Without it a failure is told all the same.
        let _ = writeln!(self.log, "  {what}");
    }

    /// Opens the engine; first, where it is to be, in trouble, which may keep it from opening.
    fn open(&mut self, in_trouble: bool, summary: &mut Summary) -> Result<Engine, String> {
        if in_trouble {
            let trouble = trouble::of_opening(&mut self.random);
            self.note("an opening in trouble".to_owned());
            self.begin(&trouble);
            summary.at_the_ends += 1;
            let opened = builder(self.dir).open();
            self.disk.end();
            match opened {
                Ok(engine) => return Ok(engine),
                Err(error) => {
                    let text = error.to_string();
                    let named = self.errors.iter().any(|known| text.contains(known.as_str()));
                    if !named {
                        return Err(format!("an opening in trouble says: {text}"));
                    }
                    summary.unopened += 1;
                }
            }
        }
        builder(self.dir).open().map_err(|error| format!("an opening in calm: {error}"))
    }

    /// Everything that was promised is there, now or after reopening what trouble kept closed.
    fn recover(&self, engine: &Engine, known: &mut Histories) -> Result<(), String> {
        let client = engine.client();
        for (id, opened) in &engine.opened().not_clean {
            let closed = match opened {
                Ok(report) if !report.damage.is_empty() => {
                    return Err(format!("{id}: damage by trouble that has passed: {report:?}"));
                }
                Ok(report) => report.read_only,
                Err(_) => true,
            };
            if closed {
                let again = client.reopen_partition_blocking(*id);
                again.map_err(|error| format!("{id}: reopening it in calm: {error}"))?;
            }
        }
        for (id, history) in known {
            history.crashed(Crash::Kill);
            read_all(history, &client, *id).map_err(|broken| broken.to_string())?;
        }
        Ok(())
    }

    /// Closes the engine, now and then in trouble: then it may say that its end is not in order.
    fn close(&mut self, engine: Engine, summary: &mut Summary) -> Result<(), String> {
        if !self.random.once_in(3) {
            return engine.close_blocking().map_err(|error| format!("a close in calm: {error}"));
        }
        let trouble = trouble::drawn(&mut self.random);
        self.note("a close in trouble".to_owned());
        self.begin(&trouble);
        summary.at_the_ends += 1;
        thread::scope(|scope| {
            let closing = scope.spawn(|| engine.close_blocking());
            thread::sleep(trouble.lasts);
            self.disk.end();
            let closed = closing.join();
            closed.map(drop).map_err(|_| "a close that panics".to_owned())
        })
    }

    /// Each message says what the system said, or that too much was asked, and what to do.
    fn are_clear(&self, messages: &[String]) -> Result<(), String> {
        for text in messages {
            let is_named = self.errors.iter().any(|known| text.contains(known.as_str()));
            let is_busy = text.contains("too much is in flight");
            if !(is_named || is_busy) || !ACTIONS.iter().any(|action| text.contains(action)) {
                return Err(format!("an error that does not say what and what to do: {text}"));
            }
        }
        Ok(())
    }
}

/// An engine's traffic.
struct Running {
    traffic: Traffic,
    seen: Vec<(PartitionId, Arc<Seen>)>,
}

impl Running {
    fn start(client: &Client, life: u32, known: Histories) -> Running {
        let traffic = Traffic::start(client, life, known);
        let seen = traffic.seen();
        Running { traffic, seen }
    }

    fn counts(&self) -> Vec<Counts> {
        self.seen.iter().map(|(_, seen)| seen.counts()).collect()
    }

    /// Every pair appends at all levels and polls, since `then`.
    fn until_calm(&self, then: &[Counts]) -> Result<(), String> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let now = self.counts();
            let new = now.iter().zip(then).map(|(now, then)| now.since(then));
            let pairs = self.seen.iter().zip(new);
            let behind: Vec<String> = pairs
                .filter(|(_, new)| !new.is_unhurt(2))
                .map(|((id, seen), new)| format!("{id}: {new:?} {:?}", seen.messages()))
                .collect();
            if behind.is_empty() {
                return Ok(());
            }
            if Instant::now() > patience || !self.traffic.goes_on() {
                return Err(format!(
                    "with the trouble gone not all goes on:\n{}",
                    behind.join("\n")
                ));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Summary {
    fn add(&mut self, counts: &Counts) {
        self.acked += counts.acked.iter().sum::<u64>();
        self.refused += counts.refused;
        self.poisoned += counts.poisoned;
        self.reopened += counts.reopened;
        self.poll_errors += counts.poll_errors;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { rounds, troubles, at_the_ends, hits, acked, .. } = self;
        let Summary { refused, poisoned, reopened, poll_errors, unopened, .. } = self;
        write!(f, "{rounds} rounds, {troubles} times of trouble and {at_the_ends} openings and")?;
        writeln!(f, " closes in it, {hits} operations hit")?;
        write!(f, "  {acked} appends acknowledged, {refused} refused, {poisoned} poisoned;")?;
        write!(f, " {reopened} partitions reopened, {poll_errors} polls failed, {unopened}")?;
        f.write_str(" openings refused")
    }
}

impl Failure {
    fn of_rig(seed: u64, error: &io::Error) -> Failure {
        let what = format!("the rig cannot go on: {error}");
        Failure { seed, what, log: String::new(), is_broken_promise: false }
    }

    /// Whether the engine is to blame.
    pub fn is_broken_promise(&self) -> bool {
        self.is_broken_promise
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, what, log, .. } = self;
        write!(f, "{what}\n{log}")?;
        write!(f, "  this seed again, with other timing: corelog-hostile --dir DIR --seed {seed}")?;
        write!(f, " --rounds 1 {}", runtime::flag())
    }
}

impl std::error::Error for Failure {}
