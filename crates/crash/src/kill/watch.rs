//! A life as a process: started, listened to, killed.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::ledger::{Entry, Event, Ledger};

use super::life::Life;
use super::plan::Moment;

/// A life that says nothing for so long hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// One that offers nothing more (it has used up its bytes) is killed although the moment did not
/// come: so long after it was heard last.
const IDLE: Duration = Duration::from_millis(300);
const SIGKILL: i32 = 9;

/// How a life went.
#[derive(Debug)]
pub(super) struct Lived {
    /// All that it said, as it said it.
    pub(super) text: String,
    /// The same, parsed.
    pub(super) ledger: Ledger,
    /// What was wrong with the process itself: it died or hung by itself.
    pub(super) wrong: Option<String>,
    /// The engine was open when it was killed.
    pub(super) had_opened: bool,
}

/// Kills and reaps the process, whatever happens to us.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // Both fail only where it is dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `life` by the program `exe` and ends it at `moment`.
///
/// # Errors
/// The process cannot be started.
pub(super) fn run(exe: &Path, life: &Life, moment: Moment) -> std::io::Result<Lived> {
    let mut command = Command::new(exe);
    command.arg("life").args(life.to_args()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = Guard(command.spawn()?);
    let out = child.0.stdout.take().expect("it is piped");
    let (send, lines) = channel();
    let reader = std::thread::spawn(move || {
        let mut out = BufReader::new(out);
        let mut line = Vec::new();
        while out.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if send.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });

    let mut listener =
        Listener { lines, moment, answers: 0, changes: 0, heard: Vec::new(), opened: false };
    let end = listener.until_the_moment();
    let (had_opened, killed) = (listener.opened, matches!(end, End::Kill));
    if killed || matches!(end, End::Hangs) {
        child.0.kill()?;
    }
    let status = child.0.wait()?;
    // What was in the pipe when it died counts: it was answered.
    while let Ok(line) = listener.lines.recv() {
        listener.heard.extend(line);
    }
    reader.join().expect("it only reads");

    let text = String::from_utf8_lossy(&listener.heard).into_owned();
    let (ledger, wrong) = match Ledger::parse(&text) {
        Ok(ledger) => (ledger, None),
        Err(error) => (Ledger::default(), Some(error.to_string())),
    };
    let wrong = wrong.or_else(|| wrong_end(&end, status, &ledger));
    Ok(Lived { text, ledger, wrong, had_opened })
}

enum End {
    /// The moment has come.
    Kill,
    /// It said nothing for too long.
    Hangs,
    /// It ended by itself.
    Ended,
}

struct Listener {
    lines: Receiver<Vec<u8>>,
    moment: Moment,
    answers: u64,
    changes: u64,
    heard: Vec<u8>,
    opened: bool,
}

impl Listener {
    fn until_the_moment(&mut self) -> End {
        let mut deadline = None;
        loop {
            let idle = if self.may_idle() { IDLE } else { PATIENCE };
            let wait =
                deadline.map_or(idle, |at: Instant| at.saturating_duration_since(Instant::now()));
            match self.lines.recv_timeout(wait) {
                Ok(line) => {
                    if let Some(after) = self.hear(&line) {
                        deadline.get_or_insert(Instant::now() + after);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return End::Ended,
                Err(RecvTimeoutError::Timeout) if deadline.is_some() || self.may_idle() => {
                    return End::Kill;
                }
                Err(RecvTimeoutError::Timeout) => return End::Hangs,
            }
            if deadline.is_some_and(|at| at <= Instant::now()) {
                return End::Kill;
            }
        }
    }

    /// Whether silence is fine: it is open, and nobody closes it.
    fn may_idle(&self) -> bool {
        self.opened && self.moment.close_after().is_none()
    }

    /// Takes a line in; where the moment is a time after it, that time.
    fn hear(&mut self, line: &[u8]) -> Option<Duration> {
        self.heard.extend_from_slice(line);
        let entry: Entry = std::str::from_utf8(line).ok()?.trim_end().parse().ok()?;
        match (entry.event, self.moment) {
            (Event::Broken(_), _) => Some(Duration::ZERO),
            (Event::Opening, Moment::Opening(after)) => Some(after),
            (Event::Opened, moment) => {
                self.opened = true;
                if let Moment::Running(after) = moment { Some(after) } else { None }
            }
            (Event::Acked { .. }, Moment::Answer(nth, after)) => {
                self.answers += 1;
                (self.answers == nth).then_some(after)
            }
            (Event::Changing(change), Moment::Change(nth, after)) if change.is_of_catalog() => {
                self.changes += 1;
                (self.changes == nth).then_some(after)
            }
            (Event::Closing, Moment::Closing(_, after)) => Some(after),
            _ => None,
        }
    }
}

/// What is wrong with how the process ended, if anything.
fn wrong_end(end: &End, status: ExitStatus, ledger: &Ledger) -> Option<String> {
    let closed = ledger.entries.iter().any(|entry| entry.event == Event::Closed);
    match end {
        End::Hangs => Some("it hung, and said nothing more".to_owned()),
        _ if status.signal() == Some(SIGKILL) && matches!(end, End::Kill) => None,
        _ if status.success() && closed => None,
        _ => Some(format!("it ended by itself: {status}")),
    }
}
