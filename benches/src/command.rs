//! The command: which measurement, in which directory, and what its exit status says.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use clap::Parser;
use serde_json::Value;

use crate::args::{CeilingArgs, Cli, Command, CrashArgs, RunArgs, VerifyArgs};
use crate::ceiling::{Ceiling, CeilingError, Step, sweep};
use crate::crash;
use crate::engine_load::Corelog;
use crate::interrupt::Interrupt;
use crate::kept::Kept;
use crate::machine::Machine;
use crate::place::Place;
use crate::report::Report;
use crate::run::{self, Ended};
use crate::run_error::RunError;
use crate::size;
use crate::stats::mb_per_s;

/// Bytes that came back differ from those that were sent.
const EXIT_DIFFERENT: u8 = 1;
/// Wrong usage, or I/O that failed.
const EXIT_FAILED: u8 = 2;
/// Stopped by SIGINT or SIGTERM, as shells say it.
const EXIT_STOPPED: u8 = 130;

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
    let interrupt = Interrupt::on_signals()?;
    probe_json(args.place.json.as_deref())?;
    let mut place = Place::take(args.place.dir.as_deref(), args.place.keep)?;
    let machine = Machine::look(place.path());
    let mut note = |number: u32| progress(&format!("round {} of {}", number + 1, settings.rounds));
    let ran = run::run(&Corelog, &settings, &place, &interrupt, &mut note);
    progress("");
    let outcome = match ran {
        Err(error @ RunError::Mismatch(_)) => {
            place.keep_evidence();
            eprintln!("corelog-bench: the files stay in {}", place.path().display());
            return Err(error.into());
        }
        ran => ran?,
    };
    let report = Report { settings: &settings, machine: &machine, outcome: &outcome };
    if !outcome.is_empty() {
        print(|out| report.print(out))?;
    }
    write_json(args.place.json.as_deref(), || report.to_json())?;
    tell_kept(&place);
    let stopped = outcome.ended == Ended::Interrupted;
    Ok(if stopped { ExitCode::from(EXIT_STOPPED) } else { ExitCode::SUCCESS })
}

fn kill_processes(args: &CrashArgs) -> Result<ExitCode, Box<dyn Error>> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let settings = args.settings(cpus)?;
    let interrupt = Interrupt::on_signals()?;
    probe_json(args.place.json.as_deref())?;
    let mut place = Place::take(args.place.dir.as_deref(), args.place.keep)?;
    let mut note = |number: u32| progress(&format!("process {} of {}", number + 1, args.lives));
    let ran = crash::run(&settings, args.lives, args.batches, &place, &interrupt, &mut note);
    progress("");
    let outcome = match ran {
        Err(error @ RunError::Mismatch(_)) => {
            place.keep_evidence();
            eprintln!("corelog-bench: the files stay in {}", place.path().display());
            return Err(error.into());
        }
        ran => ran?,
    };
    print(|out| outcome.print(&settings, out))?;
    write_json(args.place.json.as_deref(), || outcome.to_json(&settings))?;
    tell_kept(&place);
    let stopped = outcome.ended == Ended::Interrupted;
    Ok(if stopped { ExitCode::from(EXIT_STOPPED) } else { ExitCode::SUCCESS })
}

fn verify_kept(args: &VerifyArgs) -> Result<ExitCode, Box<dyn Error>> {
    let interrupt = Interrupt::on_signals()?;
    let place = Place::revisit(&args.dir)?;
    let kept = Kept::load_all(&place)?;
    if kept.is_empty() {
        return Err(format!("{} holds no whole round", place.path().display()).into());
    }
    for round in kept {
        progress(&format!("round {}", round.round));
        let moved = round.verify(&place, args.readers, &interrupt)?;
        progress("");
        if interrupt.is_raised() {
            return Ok(ExitCode::from(EXIT_STOPPED));
        }
        print(|out| {
            writeln!(
                out,
                "round {}: {} messages ({}) are as they were sent, both layers of checksums hold; \
                 {:.0} MB/s",
                round.round,
                moved.messages,
                size::human(moved.bytes),
                mb_per_s(moved.bytes, moved.elapsed()),
            )
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure_ceiling(args: &CeilingArgs) -> Result<ExitCode, Box<dyn Error>> {
    args.check()?;
    let interrupt = Interrupt::on_signals()?;
    probe_json(args.place.json.as_deref())?;
    let place = Place::take(args.place.dir.as_deref(), args.place.keep)?;
    place.need_space(sweep::space_needed(args))?;
    let machine = Machine::look(place.path());
    let ceiling = Ceiling::new(place.ceiling_dir()?, interrupt);
    let mut note = |number: u32| progress(&format!("round {} of {}", number + 1, args.rounds));
    let measured = sweep::measure(&ceiling, args, &mut note);
    progress("");
    let sweep = measured?;
    print(|out| sweep.print(&machine, out))?;
    write_json(args.place.json.as_deref(), || sweep.to_json(&machine))?;
    tell_kept(&place);
    Ok(ExitCode::SUCCESS)
}

/// Prints to stdout; a reader that went away is no error.
fn print(tell: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    match tell(&mut io::stdout().lock()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        told => told,
    }
}

/// One line on a terminal that replaces the last one; nothing in pipes and logs.
pub(crate) fn progress(line: &str) {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
    }
}

fn tell_kept(place: &Place) {
    if place.keeps() {
        eprintln!("corelog-bench: the files stay in {}", place.path().display());
    }
}

/// A file that cannot be written is said before the run, not after it.
fn probe_json(path: Option<&Path>) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    match File::options().append(true).create(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("cannot write {}: {error}", path.display())),
    }
}

fn write_json(path: Option<&Path>, value: impl FnOnce() -> Value) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, format!("{:#}\n", value()))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
