//! Starts a child for each log in each round, the first one changing, so that a disk that drifts
//! drifts for all; two more of each, which only append, are counted by `perf`.

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::Fault;
use crate::args::RunArgs;
use crate::logs::Kind;
use crate::table::{self, Row};
use crate::work::Class;

/// Measures and prints.
pub(crate) fn run(args: &RunArgs) -> Result<(), Fault> {
    if args.dir.exists() && fs::read_dir(&args.dir)?.next().is_some() {
        return Err(format!("{} is not empty: name another --dir", args.dir.display()).into());
    }
    fs::create_dir_all(&args.dir)?;
    let classes = chosen(&args.classes);
    let mut tables = Vec::new();
    for class in classes {
        let logs: Vec<Kind> =
            chosen(&args.logs).into_iter().filter(|log| log.offers(class)).collect();
        let rows = measure(args, class, &logs)?;
        print!("{}", table::markdown(class, class.work(args.scale), &rows));
        tables.push(json!({
            "class": class.to_string(),
            "rows": rows.iter().map(Row::to_json).collect::<Vec<_>>(),
        }));
    }
    if let Some(path) = &args.json {
        let all = json!({ "schema": 1, "rounds": args.rounds, "scale": args.scale,
                          "machine": machine(), "classes": tables });
        fs::write(path, format!("{all:#}\n"))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    fs::remove_dir(&args.dir)?;
    Ok(())
}

/// Those that were asked for, or all.
fn chosen<T: ValueEnum + Clone>(asked: &[T]) -> Vec<T> {
    if asked.is_empty() { T::value_variants().to_vec() } else { asked.to_vec() }
}

fn measure(args: &RunArgs, class: Class, logs: &[Kind]) -> Result<Vec<Row>, Fault> {
    let mut rows: Vec<Row> = logs.iter().map(|log| Row::new(*log)).collect();
    for round in 0..args.rounds as usize {
        for turn in 0..rows.len() {
            let at = (turn + round) % logs.len();
            let measured = child(args, class, logs[at], false)?;
            rows[at].add(measured);
        }
    }
    for row in &mut rows {
        row.calls_a_batch = calls(args, class, row.log)?;
    }
    Ok(rows)
}

/// Runs one child on a directory of its own and a flushed file system: what it printed.
fn child(args: &RunArgs, class: Class, log: Kind, append_only: bool) -> Result<Value, Fault> {
    let (dir, program) = (args.dir.join("log"), std::env::current_exe()?);
    let mut command = Command::new(program);
    command.args(words(args, class, log, &dir, append_only));
    let printed = finish(&mut command, &dir, log)?;
    Ok(serde_json::from_str(printed.trim())?)
}

fn words(args: &RunArgs, class: Class, log: Kind, dir: &Path, append_only: bool) -> Vec<String> {
    let value = log.to_possible_value().expect("no log is hidden");
    let mut words = vec![
        "child".to_owned(),
        format!("--log={}", value.get_name()),
        format!("--class={class}"),
        format!("--dir={}", dir.display()),
        format!("--scale={}", args.scale),
    ];
    words.extend(append_only.then(|| "--append-only".to_owned()));
    words
}

fn finish(command: &mut Command, dir: &Path, log: Kind) -> Result<String, Fault> {
    let parent = dir.parent().expect("a directory in the one of the run");
    rustix::fs::syncfs(fs::File::open(parent)?)?;
    command.env("WALRUS_QUIET", "1").env("WALRUS_DATA_DIR", dir);
    let output = command.output()?;
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}: {said}", log.name(), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// System calls of a batch, by `perf`: those of a child that only appends, without those of one
/// that appends next to nothing. None without `perf`.
fn calls(args: &RunArgs, class: Class, log: Kind) -> Result<Option<f64>, Fault> {
    let least = RunArgs { scale: 1, ..args.clone() };
    let (all, opening) = (counted(args, class, log)?, counted(&least, class, log)?);
    Ok(all.zip(opening).and_then(|((calls, batches), (of_opening, fewest))| {
        let more = batches - fewest;
        (more > 0.0).then(|| (calls - of_opening).max(0.0) / more)
    }))
}

/// System calls and batches of a child.
fn counted(args: &RunArgs, class: Class, log: Kind) -> Result<Option<(f64, f64)>, Fault> {
    let (dir, told) = (args.dir.join("log"), args.dir.join("perf"));
    let mut command = Command::new("perf");
    let event = ["stat", "-x,", "-e", "raw_syscalls:sys_enter", "-o"];
    command.args(event).arg(&told).arg("--").arg(std::env::current_exe()?);
    command.args(words(args, class, log, &dir, true));
    let done = finish(&mut command, &dir, log);
    let text = fs::read_to_string(&told).unwrap_or_default();
    if told.exists() {
        fs::remove_file(&told)?;
    }
    let Ok(printed) = done else { return Ok(None) };
    let batches = serde_json::from_str::<Value>(printed.trim())?["batches"].as_f64();
    let line = text.lines().find(|line| line.contains("raw_syscalls"));
    let calls = line.and_then(|line| line.split(',').next()?.parse::<f64>().ok());
    Ok(calls.zip(batches))
}

/// The machine in a few words.
fn machine() -> Value {
    let read = |path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let cpu = read("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let cpus = std::thread::available_parallelism().ok().map(usize::from);
    json!({ "cpu": cpu, "cpus": cpus, "kernel": read("/proc/sys/kernel/osrelease") })
}
