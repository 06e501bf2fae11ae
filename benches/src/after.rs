//! The commands that measure nothing: they compare results, judge a machine, and render.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;

use crate::args::{CompareArgs, DoctorArgs, Files, MovedArgs, ReportArgs, SchemaArgs};
use crate::compare::{self, Side};
use crate::doctor;
use crate::interrupt::Interrupt;
use crate::outputs::{print, read_json, write};
use crate::report::html;

/// A condition holds, or the machine is not fit.
const EXIT_HOLDS: u8 = 1;

/// `compare`.
pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode, Box<dyn Error>> {
    let (a, b) = (side(&args.a)?, side(&args.b)?);
    let comparison = compare::compare(&a, &b, args.confidence);
    if comparison.rows.is_empty() {
        return Err("neither side has a figure of `run`".into());
    }
    let mut held = Vec::new();
    for gate in &args.fail_if {
        held.extend(gate.judge(&comparison)?);
    }
    print(|out| match args.json {
        true => writeln!(out, "{:#}", comparison.to_json(&held)),
        false => comparison.print(&held, out),
    })?;
    let fails = held.iter().any(|held| held.holds);
    Ok(if fails { ExitCode::from(EXIT_HOLDS) } else { ExitCode::SUCCESS })
}

fn side(Files(paths): &Files) -> Result<Side, String> {
    let runs = paths.iter().map(|path| read_run(path)).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Ok(Side { name: names.join(", "), runs })
}

/// A result of `run`: another command's has none of its figures, and would pass as one without any.
fn read_run(path: &Path) -> Result<Value, String> {
    let run = read_json(path)?;
    match run["phases"].is_array() {
        true => Ok(run),
        false => Err(format!("{} is no result of `run`: it has no phases", path.display())),
    }
}

/// `moved`.
pub(crate) fn moved(args: &MovedArgs) -> Result<ExitCode, Box<dyn Error>> {
    let read = |files: &Files| -> Result<Vec<Value>, String> {
        let paths = json_files(files)?;
        paths.iter().map(|path| read_json(path)).collect()
    };
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let moved = compare::moved(&a, &b, args.confidence, args.least / 100.0)?;
    print(|out| match args.json {
        true => writeln!(out, "{:#}", moved.to_json()),
        false => moved.print(out),
    })?;
    Ok(if moved.has_worse() { ExitCode::from(EXIT_HOLDS) } else { ExitCode::SUCCESS })
}

/// The files themselves, and those in directories among them whose names end with `.json`.
fn json_files(Files(paths): &Files) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for path in paths.iter() {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let cannot = |error| format!("cannot read {}: {error}", path.display());
        let before = files.len();
        for entry in fs::read_dir(path).map_err(cannot)? {
            let file = entry.map_err(cannot)?.path();
            files.extend(file.extension().is_some_and(|end| end == "json").then_some(file));
        }
        if files.len() == before {
            return Err(format!("{} has no result in it (*.json)", path.display()));
        }
        files[before..].sort();
    }
    Ok(files)
}

/// `doctor`.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode, Box<dyn Error>> {
    if !args.dir.is_dir() {
        let dir = args.dir.display();
        return Err(format!("{dir} is no directory; name one on the disk that is meant").into());
    }
    let interrupt = Interrupt::on_signals()?;
    let diagnosis = doctor::examine(&args.dir, &interrupt)?;
    print(|out| match args.json {
        true => writeln!(out, "{:#}", diagnosis.to_json()),
        false => diagnosis.print(out),
    })?;
    Ok(if diagnosis.is_fit() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_HOLDS) })
}

/// `report`.
pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode, Box<dyn Error>> {
    let run = read_run(&args.result)?;
    write(&args.html, |out| out.write_all(html::page(&run).as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

/// `schema`.
pub(crate) fn schema(args: &SchemaArgs) -> Result<ExitCode, Box<dyn Error>> {
    print(|out| writeln!(out, "{:#}", args.of.schema()))?;
    Ok(ExitCode::SUCCESS)
}
