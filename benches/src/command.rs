//! The command: which measurement, in which directory, and what its exit status says.

use std::error::Error;
use std::process::ExitCode;
use std::thread;
use std::time::SystemTime;

use clap::Parser;

use crate::args::{CeilingArgs, Cli, Command, CrashArgs, OutputArgs, RunArgs, VerifyArgs};
use crate::ceiling::{Ceiling, CeilingError, Step, sweep};
use crate::crash;
use crate::engine_load::Corelog;
use crate::interrupt::{Interrupt, Slow};
use crate::kept::{Checked, Kept};
use crate::live::Live;
use crate::machine::Machine;
use crate::outputs::{Outputs, print};
use crate::place::Place;
use crate::progress::Progress;
use crate::report::Report;
use crate::run::{self, Ended};
use crate::run_error::RunError;
use crate::{account, after, descriptors};

/// Bytes that came back differ from those that were sent.
const EXIT_DIFFERENT: u8 = 1;
/// Wrong usage, or I/O that failed.
const EXIT_FAILED: u8 = 2;
/// Stopped by SIGINT or SIGTERM, as shells say it.
const EXIT_STOPPED: u8 = 130;

/// Where there is nothing to report.
const NOTHING: &str = "corelog-bench: stopped before anything was measured";

/// Runs what the command line asks for.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => run_engine(&args),
        Command::Ceiling(args) => measure_ceiling(&args),
        Command::Crash(args) => kill_processes(&args),
        Command::Verify(args) => verify_kept(&args),
        Command::AppendUntilKilled(args) => {
            crash::append_until_killed(&args).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Compare(args) => after::compare(&args),
        Command::Moved(args) => after::moved(&args),
        Command::Doctor(args) => after::doctor(&args),
        Command::Report(args) => after::report(&args),
        Command::Schema(args) => after::schema(&args),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("corelog-bench: {error}");
            ExitCode::from(exit_code(error.as_ref()))
        }
    }
}

fn exit_code(error: &(dyn Error + 'static)) -> u8 {
    let is_stop = |error: &CeilingError| error.step == Step::Interrupted;
    match error.downcast_ref::<RunError>() {
        Some(RunError::Mismatch(_)) => EXIT_DIFFERENT,
        Some(error) if error.is_interrupt() => EXIT_STOPPED,
        _ if error.downcast_ref().is_some_and(is_stop) => EXIT_STOPPED,
        _ => EXIT_FAILED,
    }
}

fn run_engine(args: &RunArgs) -> Result<ExitCode, Box<dyn Error>> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let settings = args.settings(cpus)?;
    descriptors::make_room(&settings)?;
    let interrupt = Interrupt::on_signals()?;
    let outputs = Outputs::check(args.place.json.as_deref(), &args.output)?;
    account::arm();
    // Longer than the place, whose files go at its end.
    let _slow = when_slow(&interrupt);
    let mut place = Place::take(args.place.dir.as_deref(), args.place.keep)?;
    let machine = Machine::look(place.path());
    let quiet = args.place.quiet || outputs.json_to_stdout();
    let progress = Progress::new("round", settings.rounds, quiet);
    let live = Live::default();
    let progress = progress.in_steps(settings.steps.len()).with_speed_of(&live);
    let started = SystemTime::now();
    let mut note = |round: u32, step: usize, name: &str| progress.begin_step(round, step, name);
    let ran = run::run(&Corelog, &settings, &place, &interrupt, &live, &mut note);
    drop(progress);
    let outcome = with_evidence(ran, &mut place)?;
    let percentiles = args.percentiles.clone().unwrap_or_default();
    let report =
        Report { settings: &settings, machine: &machine, outcome: &outcome, started, percentiles };
    match outcome.is_empty() {
        true => eprintln!("{NOTHING}"),
        false if quiet => {}
        false => print(|out| report.print(out))?,
    }
    outputs.write(&report)?;
    tell_kept(&place);
    Ok(after(outcome.ended))
}

fn kill_processes(args: &CrashArgs) -> Result<ExitCode, Box<dyn Error>> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let settings = args.settings(cpus)?;
    let interrupt = Interrupt::on_signals()?;
    let outputs = Outputs::check(args.place.json.as_deref(), &OutputArgs::default())?;
    // Longer than the place, whose files go at its end.
    let _slow = when_slow(&interrupt);
    let mut place = Place::take(args.place.dir.as_deref(), args.place.keep)?;
    let quiet = args.place.quiet || outputs.json_to_stdout();
    let progress = Progress::new("process", args.lives, quiet);
    let mut note = |number: u32| progress.begin(number);
    let ran = crash::run(&settings, args.lives, args.batches, &place, &interrupt, &mut note);
    drop(progress);
    let outcome = with_evidence(ran, &mut place)?;
    if !quiet {
        print(|out| outcome.print(&settings, out))?;
    }
    outputs.write_json(&outcome.to_json(&settings))?;
    tell_kept(&place);
    Ok(after(outcome.ended))
}

fn verify_kept(args: &VerifyArgs) -> Result<ExitCode, Box<dyn Error>> {
    let interrupt = Interrupt::on_signals()?;
    let outputs = Outputs::check(args.json.as_deref(), &OutputArgs::default())?;
    let place = Place::revisit(&args.dir)?;
    let kept = Kept::load_all(&place)?;
    if kept.is_empty() {
        return Err(format!("{} holds no whole round", place.path().display()).into());
    }
    let quiet = args.quiet || outputs.json_to_stdout();
    let live = Live::default();
    let progress = Progress::new("round", kept.len() as u32, quiet).with_speed_of(&live);
    let mut checked = Checked::nothing();
    for (number, round) in (0..).zip(kept) {
        progress.begin(number);
        let moved = round.verify(&place, args.readers, &interrupt, &live)?;
        if interrupt.is_raised() {
            checked.ended = Ended::Interrupted;
            break;
        }
        let one = checked.add(round.round, &moved);
        if !quiet {
            progress.aside(|| print(|out| one.print(out)))?;
        }
    }
    drop(progress);
    outputs.write_json(&checked.to_json())?;
    Ok(after(checked.ended))
}

fn measure_ceiling(args: &CeilingArgs) -> Result<ExitCode, Box<dyn Error>> {
    args.check()?;
    let interrupt = Interrupt::on_signals()?;
    let outputs = Outputs::check(args.place.json.as_deref(), &OutputArgs::default())?;
    let place = Place::take(args.place.dir.as_deref(), args.place.keep)?;
    place.need_space(sweep::space_needed(args), Some("--total"))?;
    let machine = Machine::look(place.path());
    let live = Live::default();
    let ceiling = Ceiling::new(place.ceiling_dir()?, interrupt).telling(&live);
    let quiet = args.place.quiet || outputs.json_to_stdout();
    let progress = Progress::new("round", args.rounds, quiet).with_speed_of(&live);
    let measured = sweep::measure(&ceiling, args, &mut |number| progress.begin(number));
    drop(progress);
    let sweep = measured?;
    match sweep.is_empty() {
        true => eprintln!("{NOTHING}"),
        false if quiet => {}
        false => print(|out| sweep.print(&machine, out))?,
    }
    outputs.write_json(&sweep.to_json(&machine))?;
    tell_kept(&place);
    Ok(after(sweep.ended))
}

fn after(ended: Ended) -> ExitCode {
    match ended {
        Ended::Interrupted => ExitCode::from(EXIT_STOPPED),
        Ended::Complete | Ended::TimeLimit => ExitCode::SUCCESS,
    }
}

/// Says what can be done where a stop takes long.
fn when_slow(interrupt: &Interrupt) -> Slow {
    interrupt.when_slow(|| {
        eprintln!(
            "corelog-bench: stopping; what the engine has begun must end, and the files must go. A \
             second signal ends this at once and leaves them"
        );
    })
}

/// What was answered; where bytes differ their files stay.
fn with_evidence<T>(ran: Result<T, RunError>, place: &mut Place) -> Result<T, RunError> {
    if let Err(RunError::Mismatch(_)) = ran {
        place.keep_evidence();
        eprintln!("corelog-bench: the files stay in {}", place.path().display());
    }
    ran
}

fn tell_kept(place: &Place) {
    if place.keeps() {
        eprintln!("corelog-bench: the files stay in {}", place.path().display());
    }
}
