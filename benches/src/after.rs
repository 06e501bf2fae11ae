//! The commands that measure nothing: they compare results, judge a machine, and render.

use std::error::Error;
use std::process::ExitCode;

use crate::args::{CompareArgs, DoctorArgs, Files, ReportArgs};
use crate::compare::{self, Side};
use crate::doctor;
use crate::interrupt::Interrupt;
use crate::outputs::{print, read_json, write};
use crate::report::{html, schema};

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
    let runs = paths.iter().map(|path| read_json(path)).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Ok(Side { name: names.join(", "), runs })
}

/// `doctor`.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode, Box<dyn Error>> {
    if !args.dir.is_dir() {
        return Err(format!("{} is no directory", args.dir.display()).into());
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
    let run = read_json(&args.result)?;
    write(&args.html, |out| out.write_all(html::page(&run).as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

/// `schema`.
pub(crate) fn schema() -> Result<ExitCode, Box<dyn Error>> {
    print(|out| out.write_all(schema::RUN.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}
