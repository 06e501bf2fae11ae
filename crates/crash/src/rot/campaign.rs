//! Cases in rounds: those that harm different partitions share an opening, those that harm the
//! engine's own files have one each.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use corelog::Engine;
use corelog::error::OpenError;

use crate::random::Random;

use super::case::Case;
use super::dumped::dumped;
use super::expect::Expect;
use super::judge::{self, Opening, Trial};
use super::misplaced;
use super::specimen::Specimen;
use super::working::Working;
use super::wound::{self, ENGINE_FILES};

/// A round takes some 200 ms; one that takes so long hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// One round in so many harms the engine's own files.
const ENGINE_ROUNDS: u64 = 5;
/// Openings of a harmed data directory, one after the other.
const LIVES: u32 = 2;

/// Harms copies of a specimen until something is not as it should be.
pub struct Campaign<'a> {
    specimen: &'a Specimen,
    working: Working,
    rng: Random,
    outcome: Outcome,
    failures: Vec<Failure>,
    failures_max: usize,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// Cases judged.
    pub cases: u64,
    /// Openings of the engine.
    pub openings: u64,
    /// Cases of the engine's own files that it refused to open with, naming the file.
    pub refusals: u64,
}

/// A case that was not as it should be.
#[derive(Debug)]
pub struct Failure {
    /// What replays it. Cases of the same round harmed other partitions.
    pub case: String,
    /// What was wrong.
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  replay with: --case \"{}\"", self.why, self.case)
    }
}

impl<'a> Campaign<'a> {
    /// Cases on copies of `specimen` in `scratch`, drawn from `seed`, up to so many failures.
    ///
    /// # Errors
    /// The specimen cannot be listed.
    pub fn new(
        specimen: &'a Specimen,
        scratch: PathBuf,
        seed: u64,
        failures_max: usize,
    ) -> io::Result<Campaign<'a>> {
        let working = Working::of(&specimen.dir, scratch)?;
        let (rng, outcome, failures) = (Random::new(seed), Outcome::default(), Vec::new());
        Ok(Campaign { specimen, working, rng, outcome, failures, failures_max })
    }

    /// What was done so far.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// What was not as it should be so far.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// So many rounds of drawn cases, or fewer when `until` comes first.
    ///
    /// # Errors
    /// The specimen cannot be read.
    pub fn drawn(&mut self, rounds: u64, until: Option<Instant>) -> io::Result<()> {
        for round in 0..rounds {
            if self.is_over() || until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            let mut cases = Vec::new();
            let of_engine = round % ENGINE_ROUNDS == ENGINE_ROUNDS - 1;
            for _ in 0..if of_engine { 1 } else { 3 * self.specimen.partitions.len() } {
                let (specimen, rng) = (self.specimen, &mut self.rng);
                cases.push(match (of_engine, rng.below(4)) {
                    (_, 0) => misplaced::drawn(specimen, rng, of_engine),
                    (true, _) => wound::drawn_of_engine(specimen, rng)?,
                    (false, _) => wound::drawn(specimen, rng)?,
                });
            }
            // Those that do not fit into the round are not missed.
            self.pack(cases);
        }
        Ok(())
    }

    /// Every case there is: see `wound::every` and `misplaced::every`. `progress` is called between
    /// rounds with the number of those left.
    ///
    /// # Errors
    /// The specimen cannot be read.
    pub fn every(&mut self, mut progress: impl FnMut(Outcome, usize)) -> io::Result<()> {
        let (specimen, rng) = (self.specimen, &mut self.rng);
        let mut cases = misplaced::every(specimen, rng, false);
        cases.extend(misplaced::every(specimen, rng, true));
        cases.extend(wound::every_of_engine(specimen, rng)?);
        cases.extend(wound::every(specimen)?);
        while !cases.is_empty() && !self.is_over() {
            cases = self.pack(cases);
            progress(self.outcome, cases.len());
        }
        Ok(())
    }

    /// One case alone.
    pub fn one(&mut self, case: Case) {
        self.pack(vec![case]);
    }

    fn is_over(&self) -> bool {
        self.failures.len() >= self.failures_max
    }

    /// A round of the first of `cases` and of all that go with it; hands the others back.
    fn pack(&mut self, cases: Vec<Case>) -> Vec<Case> {
        let mut round: Vec<(Case, Vec<(usize, Expect)>)> = Vec::new();
        let (mut rest, mut alone) = (Vec::new(), None);
        let mut taken = vec![false; self.specimen.partitions.len()];
        for case in cases {
            if alone.is_some() || taken.iter().all(|taken| *taken) {
                rest.push(case);
                continue;
            }
            match case.expect(self.specimen) {
                None if round.is_empty() => alone = Some(case),
                Some(all) if all.iter().all(|(number, _)| !taken[*number]) => {
                    all.iter().for_each(|(number, _)| taken[*number] = true);
                    round.push((case, all));
                }
                _ => rest.push(case),
            }
        }
        self.outcome.cases += (round.len() + usize::from(alone.is_some())) as u64;
        let names: Vec<String> =
            alone.iter().chain(round.iter().map(|(case, _)| case)).map(Case::to_string).collect();
        let watched = Watched::start(names.join("\n"));
        let judged = self.round(&round, alone.as_ref());
        self.failures.extend(judged.err());
        drop(watched);
        rest
    }

    fn round(
        &mut self,
        round: &[(Case, Vec<(usize, Expect)>)],
        alone: Option<&Case>,
    ) -> Result<(), Failure> {
        self.working.restore().map_err(|error| rig("restore", &error))?;
        ENGINE_FILES.iter().for_each(|file| self.working.forget(file.as_ref()));
        for case in round.iter().map(|(case, _)| case).chain(alone) {
            case.touches(self.specimen).iter().for_each(|path| self.working.forget(path));
            let applied = case.apply(self.specimen, self.working.dir());
            applied.map_err(|error| rig(&case.to_string(), &error))?;
        }
        // Which case a partition's failure belongs to.
        let mut blame: BTreeMap<usize, (String, &Expect)> = BTreeMap::new();
        for (case, expects) in round {
            for (number, expect) in expects {
                blame.insert(*number, (case.to_string(), expect));
            }
        }
        let untouched = Expect::default();
        let all: Vec<String> = round.iter().map(|(case, _)| case.to_string()).collect();
        let of_all = alone.map_or(all.join(", "), Case::to_string);
        let mut trials: Vec<(String, Trial<'_>)> = Vec::new();
        for (number, partition) in self.specimen.partitions.iter().enumerate() {
            let (case, expect) = match blame.remove(&number) {
                Some((case, expect)) => (case, expect),
                None => (of_all.clone(), &untouched),
            };
            let dumped = dumped(self.working.dir(), partition);
            trials.push((case, Trial::new(partition, expect, dumped)));
        }
        for _ in 0..LIVES {
            if !self.live(&mut trials, alone, &of_all)? {
                break;
            }
        }
        Ok(())
    }

    /// One life of all partitions; false where the engine refused to open with good reason.
    fn live(
        &mut self,
        trials: &mut [(String, Trial<'_>)],
        alone: Option<&Case>,
        of_all: &str,
    ) -> Result<bool, Failure> {
        let failed = |case: &str, why: String| Failure { case: case.to_owned(), why };
        let panics = PANICS.load(Ordering::SeqCst);
        self.outcome.openings += 1;
        let engine = match judge::builder(self.working.dir()).open() {
            Ok(engine) => engine,
            Err(error) => {
                self.outcome.refusals += 1;
                let is_named = alone.is_some() && names_a_file(&error);
                let why = || failed(of_all, format!("the engine did not open: {error}"));
                return if is_named { Ok(false) } else { Err(why()) };
            }
        };
        let client = engine.client();
        for (case, trial) in trials {
            let life =
                trial.live(&client, self.working.dir(), &opening(&engine, trial), &mut self.rng);
            life.map_err(|why| failed(case, format!("{}: {why}", trial.id())))?;
        }
        engine.close_blocking().map_err(|error| failed(of_all, format!("the close: {error}")))?;
        match PANICS.load(Ordering::SeqCst) - panics {
            0 => Ok(true),
            _ => Err(failed(of_all, "a thread of the engine panicked, see above".to_owned())),
        }
    }
}

fn opening<'e>(engine: &'e Engine, trial: &Trial<'_>) -> Opening<'e> {
    let found = engine.opened().not_clean.iter().find(|(id, _)| *id == trial.id());
    match found {
        None => Opening::Clean,
        Some((_, Ok(report))) => Opening::Report(report),
        Some((_, Err(error))) => Opening::Refused(error),
    }
}

/// An operator can see from the error which file it is.
fn names_a_file(error: &OpenError) -> bool {
    let text = error.to_string();
    ENGINE_FILES.iter().any(|file| text.contains(file))
}

/// The rig itself failed.
fn rig(case: &str, error: &io::Error) -> Failure {
    Failure { case: case.to_owned(), why: format!("the rig: {error}") }
}

/// Panics on threads of the engine. The catalog's thread contains those of the store below it.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts the engine's panics from now on.
pub(super) fn count_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let name = thread::current().name().map(str::to_owned).unwrap_or_default();
            if name == "corelog-catalog" {
                return;
            }
            if name.starts_with("corelog") {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            before(panic);
        }));
    });
}

/// Ends the process when a round does not end.
struct Watched(Option<(mpsc::Sender<()>, thread::JoinHandle<()>)>);

impl Watched {
    fn start(cases: String) -> Watched {
        count_panics();
        let (done, ended) = mpsc::channel();
        let cases = Arc::new(cases);
        let watch = thread::spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(PATIENCE) {
                eprintln!("this hangs, in one of:\n{cases}");
                std::process::exit(1);
            }
        });
        Watched(Some((done, watch)))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some((done, watch)) = self.0.take() {
            drop(done);
            let _ = watch.join();
        }
    }
}
