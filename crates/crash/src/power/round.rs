//! A round: an engine runs on a recorded device, the power is cut at many places of its journal,
//! and every image that is left is opened and judged. Judging is recorded too, and cut again.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cut::{Cut, SHAPES, Shape};
use super::device::{Device, FileSystem};
use super::image::Image;
use super::journal::Journal;
use super::machine::Trouble;
use super::plan::Plan;
use super::tally::{Tally, parse_verdict};
use super::watch::{Ended, Said, Until, watch};
use crate::judge::Verdict;
use crate::ledger::Ledger;
use crate::random::Random;
use crate::runtime;

/// A process that has not ended after this long never will.
const PATIENCE: Duration = Duration::from_secs(120);
/// A recording ends when so much was written.
const BYTES_MAX: u64 = 48 << 20;
/// Cuts of cuts of cuts of a recording.
const DEPTH_MAX: usize = 3;

/// What all rounds share.
#[derive(Debug)]
pub struct Rig {
    /// This program, which also runs as [`super::writer`] and [`super::verify`].
    pub program: PathBuf,
    /// Everything temporary goes below here.
    pub work: PathBuf,
    /// What is left of a failure goes below here.
    pub keep: PathBuf,
    /// The file system on the device.
    pub fs: FileSystem,
    /// A device with it, fresh.
    pub pristine: Image,
    /// Images of each recording.
    pub cuts: usize,
    /// The rig's canary: so many flushes before each cut did nothing.
    pub lies: usize,
}

/// Why a round ended early.
#[derive(Debug)]
pub enum Failed {
    /// The rig, or a file system, did not do its part: nothing is said about the engine.
    Rig(Trouble),
    /// The engine broke a promise.
    Engine {
        /// What happened, and how to see it again.
        report: String,
    },
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Self {
        Failed::Rig(trouble)
    }
}

/// A device and what it went through.
struct Recorded {
    base: Image,
    journal: Journal,
    said: Said,
    /// The cuts that led to `base`, for reports.
    cuts: Vec<Cut>,
    /// What `base` was judged by.
    before: Ledger,
}

impl Rig {
    /// Runs the round of `seed` and adds to `tally`.
    ///
    /// # Errors
    /// A broken promise, or trouble with the machine.
    pub fn round(&self, seed: u64, tally: &mut Tally) -> Result<(), Failed> {
        let plan = Plan::draw(seed);
        let recorded = self.record(seed, &plan)?;
        tally.recordings += 1;
        tally.answers += recorded.said.promises().len() as u64;
        let mut random = Random::of(&[seed, 3]);
        for _ in 0..self.cuts {
            self.cut(seed, &plan, &recorded, &mut random, tally)?;
        }
        Ok(())
    }

    /// Runs the engine on a fresh file system.
    fn record(&self, seed: u64, plan: &Plan) -> Result<Recorded, Failed> {
        let mut device = Device::attach(self.pristine.clone(), &self.work, seed)?;
        let point = device.mount(self.fs)?;
        let recording = device.recording();
        let lasts = plan.lives[0];
        let opened = (plan.lives.len() == 1 && !plan.closes).then_some(lasts);
        let until = Until { patience: PATIENCE, opened, bytes: BYTES_MAX };
        let mut command = Command::new(&self.program);
        command.arg(runtime::flag()).arg("write").arg(seed.to_string()).arg(point.join("data"));
        let ended = watch(&mut command, &recording, until)
            .map_err(|error| Trouble::new("run", &self.program, &error))?;
        if ended.hung || ended.status.is_some_and(|status| !status.success()) {
            let report = self.report(seed, &[], "the recorded engine", &ended);
            return Err(Failed::Engine { report });
        }
        device.detach()?;
        Ok(Recorded {
            base: self.pristine.clone(),
            journal: recording.journal(),
            said: ended.said,
            cuts: Vec::new(),
            before: Ledger::default(),
        })
    }

    /// Cuts `recorded` once, judges what is left, and cuts that again now and then.
    fn cut(
        &self,
        seed: u64,
        plan: &Plan,
        recorded: &Recorded,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Result<(), Failed> {
        let cut = self.draw(recorded, random);
        let nested = !recorded.cuts.is_empty();
        let ledger = match nested {
            false => recorded.said.until(cut.place),
            true => recorded.said.known_at(cut.place, &recorded.before),
        };
        let fs = self.fs;
        let image =
            cut.leaves(&recorded.base, &recorded.journal, |at, b| fs.survives_tearing(at, b));
        let mut cuts = recorded.cuts.clone();
        cuts.push(cut);
        let case = Case { seed, cuts: &cuts, image: &image, ledger: &ledger };
        let (journal, said, verdict) = match self.judge(plan, &case) {
            Ok(judged) => judged,
            Err(failed) => {
                self.keep(&case)?;
                return Err(self.of(failed, &case));
            }
        };
        tally.images += 1;
        tally.nested += u64::from(nested);
        tally.loose += recorded.journal.loose_before(cut.place, cut.lies) as u64;
        tally.add(&verdict);
        if cuts.len() < DEPTH_MAX && random.once_in(3) {
            let next = Recorded { base: image, journal, said, cuts, before: ledger };
            self.cut(seed, plan, &next, random, tally)?;
        }
        Ok(())
    }

    /// Draws a cut: most of them right behind an answer or around a flush, where a promise is
    /// youngest, or where much is loose.
    fn draw(&self, recorded: &Recorded, random: &mut Random) -> Cut {
        let end = recorded.journal.entries().len();
        let promises = recorded.said.promises();
        let flushes: Vec<usize> = recorded.journal.flushes_before(end).collect();
        let anywhere = |random: &mut Random| random.below(end as u64 + 1) as usize;
        let place = match random.below(8) {
            0..=3 if !promises.is_empty() => random.pick(&promises),
            4 if !flushes.is_empty() => random.pick(&flushes) + random.below(2) as usize,
            5 => anywhere(random),
            _ => {
                let some: Vec<usize> = (0..6).map(|_| anywhere(random)).collect();
                let loose = |place: &usize| recorded.journal.loose_before(*place, self.lies);
                some.into_iter().max_by_key(loose).unwrap_or(end)
            }
        };
        let shape = match random.once_in(4) {
            true => Shape::None,
            false => random.pick(&SHAPES).0,
        };
        Cut { place: place.min(end), shape, seed: random.draw(), lies: self.lies }
    }

    /// Mounts the image, opens the engine on it and holds it against the ledger.
    fn judge(&self, plan: &Plan, case: &Case<'_>) -> Result<(Journal, Said, Verdict), Failed> {
        let mut device = Device::attach(case.image.clone(), &self.work, case.seed)?;
        let point = device.mount(self.fs)?;
        let recording = device.recording();
        let ledger = tempfile::NamedTempFile::new_in(&self.work)
            .and_then(|file| write_ledger(case.ledger, file.path()).map(|()| file))
            .map_err(|error| Trouble::new("write a ledger in", &self.work, &error))?;
        let mut command = Command::new(&self.program);
        command.arg(runtime::flag()).arg("verify").arg(plan.content.seed().to_string());
        command.arg(point.join("data")).arg(ledger.path());
        let until = Until { patience: PATIENCE, opened: None, bytes: u64::MAX };
        let ended = watch(&mut command, &recording, until)
            .map_err(|error| Trouble::new("run", &self.program, &error))?;
        let verdict = ended.said.others.iter().find_map(|line| parse_verdict(line));
        match verdict {
            Some(verdict) if ended.status.is_some_and(|status| status.success()) => {
                device.detach()?;
                Ok((recording.journal(), ended.said, verdict))
            }
            _ => {
                let report = self.report(case.seed, case.cuts, "the engine after the cut", &ended);
                Err(Failed::Engine { report })
            }
        }
    }

    /// A file system that does not take what a cut has left is the rig's trouble, or its own: to be
    /// looked at, like a broken promise.
    fn of(&self, failed: Failed, case: &Case<'_>) -> Failed {
        match failed {
            Failed::Rig(Trouble { doing, what }) => {
                let (seed, kept) = (case.seed, self.kept(case.seed));
                let what = format!("{what}\n  seed {seed}; the image is in {}", kept.display());
                Failed::Rig(Trouble { doing, what })
            }
            engine => engine,
        }
    }

    /// Keeps what is needed to judge once more.
    fn keep(&self, case: &Case<'_>) -> Result<(), Trouble> {
        let dir = self.kept(case.seed);
        let kept = fs::create_dir_all(&dir)
            .and_then(|()| case.image.save(&dir.join("image")))
            .and_then(|()| write_ledger(case.ledger, &dir.join("ledger")))
            .and_then(|()| {
                fs::write(dir.join("about"), format!("{} {}\n", self.fs.name(), case.seed))
            });
        kept.map_err(|error| Trouble::new("keep a failure in", &dir, &error))
    }

    fn kept(&self, seed: u64) -> PathBuf {
        self.keep.join(format!("{}-{seed}", self.fs.name()))
    }

    fn report(&self, seed: u64, cuts: &[Cut], who: &str, ended: &Ended) -> String {
        let how = match ended.status {
            _ if ended.hung => format!("did not end within {} s", PATIENCE.as_secs()),
            Some(status) => format!("ended with {status}"),
            None => "was killed".to_owned(),
        };
        let cuts: Vec<String> = cuts.iter().map(Cut::to_string).collect();
        let mut report = format!(
            "seed {seed} on {}: {who} {how}\n{}",
            self.fs.name(),
            ended.complained.trim_end()
        );
        if !cuts.is_empty() {
            report += &format!(
                "\n  cut at (place:shape:seed) {}\n  this image again: corelog-powercut replay {}",
                cuts.join(", then "),
                self.kept(seed).display()
            );
        }
        report += &format!(
            "\n  this seed again, with other timing: corelog-powercut run --fs {} --seed {seed} \
             --rounds 1 --cuts {}\n  (each of them with {}, as here)",
            self.fs.name(),
            self.cuts,
            runtime::flag()
        );
        report
    }
}

/// An image, and what it is judged by.
struct Case<'a> {
    seed: u64,
    cuts: &'a [Cut],
    image: &'a Image,
    ledger: &'a Ledger,
}

/// Judges once more what a failure has left in `dir`.
///
/// # Errors
/// As then.
pub fn replay(program: &Path, work: &Path, dir: &Path) -> Result<(), Failed> {
    let unreadable = |error: &dyn fmt::Display| Trouble::new("read what was kept in", dir, error);
    let about = fs::read_to_string(dir.join("about")).map_err(|error| unreadable(&error))?;
    let (fs, seed) = about.trim().split_once(' ').ok_or_else(|| unreadable(&about))?;
    let fs = [FileSystem::Ext4, FileSystem::Xfs].into_iter().find(|known| known.name() == fs);
    let fs = fs.ok_or_else(|| unreadable(&about))?;
    let seed: u64 = seed.parse().map_err(|_| unreadable(&about))?;
    let image = Image::load(&dir.join("image")).map_err(|error| unreadable(&error))?;
    let text = fs::read_to_string(dir.join("ledger")).map_err(|error| unreadable(&error))?;
    let ledger = Ledger::parse(&text).map_err(|error| unreadable(&error))?;
    let rig = Rig {
        program: program.to_owned(),
        work: work.to_owned(),
        keep: dir.to_owned(),
        fs,
        pristine: image.clone(),
        cuts: 1,
        lies: 0,
    };
    let case = Case { seed, cuts: &[], image: &image, ledger: &ledger };
    rig.judge(&Plan::draw(seed), &case).map(drop)
}

fn write_ledger(ledger: &Ledger, path: &Path) -> std::io::Result<()> {
    let lines = ledger.entries.iter().map(|entry| format!("{entry}\n"));
    fs::write(path, lines.collect::<String>())
}
