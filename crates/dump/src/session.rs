//! One run of the program: its output, its messages, and what its exit code will be.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use crate::discover::Segment;
use crate::failure::{Failure, Shown};
use crate::source::Access;
use crate::style::Style;

/// Exit codes, as `--help` states them.
const CLEAN: u8 = 0;
const DAMAGE: u8 = 1;
const FAILED: u8 = 2;
const REFUSED: u8 = 3;

/// The state of a run.
pub(crate) struct Session {
    /// Standard output, or nowhere.
    pub(crate) out: BufWriter<Box<dyn Write>>,
    /// How files are opened.
    pub(crate) access: Access,
    /// Colours, or none.
    pub(crate) style: Style,
    damage: bool,
    failed: bool,
    refused: bool,
    /// What failed; `None` where it is said at once.
    failures: Option<Vec<String>>,
}

impl Session {
    /// A run that has found nothing yet.
    pub(crate) fn new(access: Access, style: Style) -> Session {
        Session::with(Box::new(io::stdout().lock()), access, style)
    }

    /// One that prints nothing and keeps what failed.
    pub(crate) fn silent(access: Access) -> Session {
        let nowhere = Session::with(Box::new(io::sink()), access, Style::default());
        Session { failures: Some(Vec::new()), ..nowhere }
    }

    fn with(out: Box<dyn Write>, access: Access, style: Style) -> Session {
        let out = BufWriter::with_capacity(1 << 16, out);
        let (damage, failed, refused) = (false, false, false);
        Session { out, access, style, damage, failed, refused, failures: None }
    }

    /// What failed and was not said.
    pub(crate) fn failures(self) -> Vec<String> {
        self.failures.unwrap_or_default()
    }

    /// Runs `work` and gives the exit code: 2 if anything could not be done, else 3 if a change was
    /// refused, else 1 if damage was found, else 0. A reader that closes the pipe has seen enough: that is success.
    pub(crate) fn run(
        mut self,
        work: impl FnOnce(&mut Session) -> Result<(), Failure>,
    ) -> ExitCode {
        let done = work(&mut self).and_then(|()| self.out.flush().map_err(Failure::from));
        match done {
            Ok(()) => {}
            Err(Failure::Stream(error)) if error.kind() == ErrorKind::BrokenPipe => {
                // What is left in the buffer has no reader; dropping it would try again.
                drop(self.out.into_parts());
                return ExitCode::from(CLEAN);
            }
            Err(failure) => {
                tell(&failure);
                drop(self.out.into_parts());
                return ExitCode::from(FAILED);
            }
        }
        ExitCode::from(match (self.failed, self.refused, self.damage) {
            (true, ..) => FAILED,
            (_, true, _) => REFUSED,
            (.., true) => DAMAGE,
            _ => CLEAN,
        })
    }

    /// Damage was found.
    pub(crate) fn damage(&mut self) {
        self.damage = true;
    }

    /// A change was refused, for this reason.
    pub(crate) fn refuse(&mut self, why: impl std::fmt::Display) -> Result<(), Failure> {
        self.refused = true;
        if let Some(failures) = &mut self.failures {
            failures.push(why.to_string());
        }
        self.say(why)
    }

    /// A message for people, on standard error, behind what was printed before it.
    pub(crate) fn say(&mut self, message: impl std::fmt::Display) -> Result<(), Failure> {
        if self.failures.is_none() {
            self.out.flush()?;
            tell(&message);
        }
        Ok(())
    }

    /// [`Session::fail`], unless the segment is gone: retention took it, and it is as if it had
    /// been listed a moment later.
    pub(crate) fn fail_of(&mut self, segment: &Segment, failure: Failure) -> Result<(), Failure> {
        if segment.vanished(&failure) {
            return self.say(format_args!("{}: gone since it was listed", Shown(&segment.path)));
        }
        self.fail(failure)
    }

    /// One file could not be read: say so and go on with the others. A broken output ends it all.
    pub(crate) fn fail(&mut self, failure: Failure) -> Result<(), Failure> {
        if let Failure::Stream(_) = failure {
            return Err(failure);
        }
        self.failed = true;
        if let Some(failures) = &mut self.failures {
            failures.push(failure.to_string());
        }
        self.say(&failure)
    }
}

/// Writes one line to standard error; where that is closed nobody can be told anyway.
fn tell(message: &dyn std::fmt::Display) {
    let _ = writeln!(io::stderr(), "corelog-dump: {message}");
}
