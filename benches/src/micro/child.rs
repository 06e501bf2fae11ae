//! A measured process: an engine that lives in a process of its own, as one does that is opened
//! after a crash, has its own limits, or is killed.
//!
//! It is the benchmark's own program with other flags. What it measured it tells on its standard
//! output, a line `NAME VALUE` each; where it may be killed it says so and waits.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};

use super::{Failed, Options, obey};

/// The line with which a measured process waits to be killed.
const READY: &str = "ready";

/// What a measured process told, in its order.
pub type Told = Vec<(String, f64)>;

/// The `main` of a measured process; `what` says in an error what it was to do.
pub fn be_measured(
    options: &Options,
    what: impl Display,
    work: impl FnOnce() -> Result<(), Failed>,
) -> ExitCode {
    obey(options);
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{what}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Tells a figure.
pub fn say(name: &str, value: f64) {
    println!("{name} {value}");
}

/// Waits to be killed; returns where the benchmark itself has died instead.
pub fn await_kill() -> Result<(), Failed> {
    println!("{READY}");
    io::stdout().flush()?;
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// This program once more, on the same runtime and allocator.
pub fn program(options: &Options) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--runtime").arg(options.runtime.name());
    if options.system_alloc {
        command.arg("--system-alloc");
    }
    Ok(command)
}

/// Runs a measured process to its end, and kills it where it waits for that: what it told. One that
/// is not killed must end well.
pub fn observe(mut command: Command) -> Result<Told, Failed> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut child = Ended(child);
    let stdout = child.0.stdout.take().expect("piped");
    let (mut told, mut is_killed) = (Told::new(), false);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        match line.split_once(' ') {
            Some((name, value)) => told.push((name.to_owned(), value.parse()?)),
            None if line == READY => {
                child.0.kill()?;
                is_killed = true;
            }
            None => return Err(format!("a measured process said `{line}`").into()),
        }
    }
    let status = child.0.wait()?;
    match is_killed || status.success() {
        true => Ok(told),
        false => Err(format!("a measured process ended with {status}").into()),
    }
}

/// A process that ends with this value at the latest: one that is left behind holds its files.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Told, Failed> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        observe(command)
    }

    #[test]
    fn what_it_tells_is_heard_and_it_is_killed_where_it_waits() {
        let told = shell("echo a 1.5; echo b 2; echo ready; read never; echo c 3").unwrap();
        assert_eq!(told, [("a".to_owned(), 1.5), ("b".to_owned(), 2.0)]);
        assert_eq!(shell("true").unwrap(), []);
    }

    #[test]
    fn one_that_fails_or_mumbles_is_an_error() {
        for (script, words) in [
            ("echo a 1; exit 3", "exit status: 3"),
            ("echo nonsense; sleep 100", "`nonsense`"),
            ("echo a b; sleep 100", "invalid float"),
        ] {
            let error = shell(script).unwrap_err().to_string();
            assert!(error.contains(words), "{script}: {error}");
        }
    }
}
