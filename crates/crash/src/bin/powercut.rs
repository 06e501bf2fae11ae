//! `corelog-powercut`: cuts the power of a real file system under an engine, at any moment, and looks
//! for what was acknowledged.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use corelog::machine::Runtime;
use corelog_crash::power::device::FileSystem;
use corelog_crash::power::machine::{self, Trouble};
use corelog_crash::power::plan::Plan;
use corelog_crash::power::round::{Failed, Rig, replay};
use corelog_crash::power::tally::{Tally, verdict_line};
use corelog_crash::power::{verify, writer};
use corelog_crash::runtime;
use rustix::process::{Signal, set_parent_process_death_signal};

/// Cuts the power of a real file system under an engine, at places drawn from a seed, and holds what
/// an engine finds afterwards to what was answered before. Only root can.
///
/// Exit 0 when every promise was kept, 1 when one was broken, 2 when the rig could not work.
#[derive(Parser)]
#[command(name = "corelog-powercut", version)]
struct Args {
    #[command(subcommand)]
    what: What,
    /// What the engines run on: `glommio` or `ring`. The engine's default unless given.
    #[arg(long, global = true)]
    runtime: Option<Runtime>,
}

#[derive(Subcommand)]
enum What {
    /// Records engines at work, cuts, judges.
    Run(Run),
    /// Judges once more what a failure has left.
    Replay {
        /// The directory that the failure names.
        dir: PathBuf,
        /// For everything temporary.
        #[arg(long, default_value = "target/powercut")]
        work: PathBuf,
    },
    /// The recorded process.
    #[command(hide = true)]
    Write { seed: u64, dir: PathBuf },
    /// The process that judges.
    #[command(hide = true)]
    Verify { seed: u64, dir: PathBuf, ledger: PathBuf },
}

#[derive(clap::Args)]
struct Run {
    /// The file system. Both by turns unless given.
    #[arg(long)]
    fs: Option<FileSystem>,
    /// Seed of the first recording; each next one has the next seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Recordings on each file system at most. 10 unless minutes are given.
    #[arg(long)]
    rounds: Option<u64>,
    /// Minutes at most.
    #[arg(long)]
    minutes: Option<f64>,
    /// Cuts of each recording; one of three is itself cut again while it is judged.
    #[arg(long, default_value_t = 24)]
    cuts: usize,
    /// For everything temporary. Devices are kept in memory.
    #[arg(long, default_value = "target/powercut")]
    work: PathBuf,
    /// Where a failure leaves its image and its ledger. The same as `work` unless given.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Checks the rig: so many flushes before each cut did nothing. A promise must be found broken.
    #[arg(long, default_value_t = 0)]
    lies: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    runtime::choose(args.runtime);
    let done = match args.what {
        What::Run(run) => begin(run),
        What::Replay { dir, work } => again(&dir, &work),
        What::Write { seed, dir } => child(|| writer::write(&Plan::draw(seed), &dir)),
        What::Verify { seed, dir, ledger } => child(|| {
            let verdict = verify::verify(&Plan::draw(seed), &dir, &ledger)?;
            println!("{}", verdict_line(&verdict));
            Ok(())
        }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Engine { report }) => {
            eprintln!("{report}");
            ExitCode::from(1)
        }
        Err(Failed::Rig(trouble)) => {
            eprintln!("corelog-powercut: {trouble}");
            ExitCode::from(2)
        }
    }
}

/// A process that ends when the one that started it does.
fn child(run: impl FnOnce() -> Result<(), String>) -> Result<(), Failed> {
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    tied.map_err(|error| Failed::Engine { report: error.to_string() })?;
    run().map_err(|report| Failed::Engine { report })
}

fn program() -> Result<PathBuf, Trouble> {
    let found = std::env::current_exe();
    found.map_err(|error| Trouble { doing: "find its own program".into(), what: error.to_string() })
}

/// An absolute path, so that it is the same for every process.
fn directory(path: PathBuf) -> Result<PathBuf, Trouble> {
    let made = std::fs::create_dir_all(&path).and_then(|()| path.canonicalize());
    made.map_err(|error| Trouble::new("make", &path, &error))
}

fn begin(run: Run) -> Result<(), Failed> {
    let systems = run.fs.map_or(vec![FileSystem::Ext4, FileSystem::Xfs], |fs| vec![fs]);
    let programs: Vec<&str> = systems.iter().map(|fs| fs.mkfs()).collect();
    machine::check(&programs)?;
    machine::apart()?;
    let work = directory(run.work)?;
    let keep = run.keep.map_or(Ok(work.clone()), directory)?;
    let mut rigs = Vec::new();
    for fs in systems {
        let pristine = fs.make(&work)?;
        let (program, work, keep) = (program()?, work.clone(), keep.clone());
        let rig = Rig { program, work, keep, fs, pristine, cuts: run.cuts, lies: run.lies };
        rigs.push((rig, Tally::default()));
    }
    let began = Instant::now();
    let rounds = run.rounds.unwrap_or(if run.minutes.is_some() { u64::MAX } else { 10 });
    let minutes = run.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let mut done = Ok(());
    'all: for seed in (run.seed..).take(rounds.try_into().unwrap_or(usize::MAX)) {
        for (rig, tally) in &mut rigs {
            done = rig.round(seed, tally);
            if done.is_err() || minutes.is_some_and(|minutes| began.elapsed() > minutes) {
                break 'all;
            }
        }
    }
    for (rig, tally) in &rigs {
        println!("{}: {tally}", rig.fs.name());
    }
    let (seed, runtime) = (run.seed, runtime::chosen());
    println!("seeds from {seed} on, on {runtime}, {:.0} s", began.elapsed().as_secs_f64());
    done
}

fn again(dir: &std::path::Path, work: &std::path::Path) -> Result<(), Failed> {
    machine::check(&[])?;
    machine::apart()?;
    replay(&program()?, &directory(work.to_owned())?, dir)?;
    println!("every promise was kept this time");
    Ok(())
}
