//! `corelog-rot`: bit rot and misplaced files, for as long as is asked for.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand, ValueEnum};
use corelog::machine::Runtime;
use corelog_crash::rot::{Campaign, Case, Ending, Failure, Outcome, Specimen, write_and_wait};
use corelog_crash::runtime;

/// Harms a data directory that the engine wrote, one thing at a time, and holds the engine to what
/// it promises. Exit 0 when it kept every promise, 1 when it did not.
#[derive(Parser)]
#[command(name = "corelog-rot", version, subcommand_negates_reqs = true)]
struct Args {
    /// Directory for the data, on a file system with O_DIRECT; emptied before and after.
    #[arg(long, required = true)]
    dir: Option<PathBuf>,
    /// How the life that wrote the data ended; both unless said.
    #[arg(long)]
    ending: Option<End>,
    /// One case, as a failure prints it.
    #[arg(long, conflicts_with_all = ["minutes", "every"])]
    case: Option<String>,
    /// Drawn cases for so many minutes.
    #[arg(long, conflicts_with = "every")]
    minutes: Option<f64>,
    /// Every case there is.
    #[arg(long)]
    every: bool,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// Rounds of drawn cases for each ending, where no minutes are given.
    #[arg(long, default_value_t = 50)]
    rounds: u64,
    /// What the engines run on: `glommio` or `ring`. The engine's default unless given.
    #[arg(long, global = true)]
    runtime: Option<Runtime>,
    /// What is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(subcommand)]
    child: Option<Child>,
}

/// What the program asks of itself.
#[derive(Subcommand)]
enum Child {
    /// Writes a data directory.
    #[command(hide = true)]
    Write { dir: PathBuf, ending: End },
}

#[derive(Clone, Copy, ValueEnum)]
enum End {
    Clean,
    Killed,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Clean => "clean",
            End::Killed => "killed",
        }
    }
}

impl From<End> for Ending {
    fn from(end: End) -> Ending {
        match end {
            End::Clean => Ending::Clean,
            End::Killed => Ending::Killed,
        }
    }
}

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let args = Args::parse();
    runtime::choose(args.runtime);
    let done = match &args.child {
        Some(Child::Write { dir, ending }) => write_and_wait(dir, (*ending).into()).map(|()| true),
        None => run(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("corelog-rot: {error}");
            ExitCode::from(2)
        }
    }
}

/// True when every promise was kept.
fn run(args: &Args) -> Result<bool, Error> {
    let dir = args.dir.as_deref().ok_or("--dir is missing")?;
    let endings = args.ending.map_or(vec![End::Clean, End::Killed], |end| vec![end]);
    let until = args.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    for end in &endings {
        let scratch = dir.join(end.name());
        let _ = std::fs::remove_dir_all(&scratch);
        std::fs::create_dir_all(&scratch)?;
        let specimen = Specimen::make(&scratch, (*end).into(), &std::env::current_exe()?)?;
        let work = scratch.join("work");
        let mut campaign = Campaign::new(&specimen, work, args.seed, args.failures)?;
        let begin = Instant::now();
        match (&args.case, args.every) {
            (Some(case), _) => campaign.one(case.parse::<Case>()?),
            (None, true) => campaign.every(progress)?,
            (None, false) => {
                let share = until.map(|until| begin + until / endings.len() as u32);
                campaign.drawn(if until.is_some() { u64::MAX } else { args.rounds }, share)?;
            }
        }
        say(*end, campaign.outcome(), begin.elapsed(), campaign.failures());
        if !campaign.failures().is_empty() {
            return Ok(false);
        }
        std::fs::remove_dir_all(&scratch)?;
    }
    Ok(true)
}

fn progress(outcome: Outcome, left: usize) {
    if outcome.openings.is_multiple_of(200) {
        println!("  {} cases, {left} left", outcome.cases);
    }
}

fn say(end: End, outcome: Outcome, took: Duration, failures: &[Failure]) {
    let Outcome { cases, openings, refusals } = outcome;
    let (ending, seconds) = (end.name(), took.as_secs());
    println!(
        "{ending}: {cases} cases, {openings} openings in {seconds} s; {refusals} were refused, \
         naming the file"
    );
    for failure in failures {
        println!("{failure} --ending {ending} {}", runtime::flag());
    }
}
