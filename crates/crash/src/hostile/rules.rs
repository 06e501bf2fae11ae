//! Rules of trouble: an operation on a kind of file, when, and what it is answered. Data, so that a
//! test is a table of them.

use std::fmt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An operation as the file system sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A name is looked up. The kernel remembers answers for a while.
    Lookup,
    /// A file or directory is opened that exists.
    Open,
    /// A file is created.
    Create,
    /// Bytes are read.
    Read,
    /// Bytes are written, through whatever handle.
    Write,
    /// `fsync` of a file.
    Fsync,
    /// `fdatasync` of a file.
    Fdatasync,
    /// `fsync` of a directory.
    SyncDir,
    /// `fallocate`.
    Allocate,
    /// The length is set.
    Truncate,
    /// A file or directory is renamed.
    Rename,
    /// A file is removed.
    Unlink,
    /// A directory is made.
    MakeDir,
    /// A directory is listed.
    List,
    /// Free space is asked for.
    StatFs,
    /// `lseek` to data or to a hole.
    Seek,
}

/// What a file is to the engine, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A segment.
    Log,
    /// The index of a segment.
    Index,
    /// A partition's manifest.
    Manifest,
    /// The catalog.
    Catalog,
    /// The clock record.
    Clock,
    /// The lock file.
    Lock,
    /// A directory.
    Dir,
    /// The probe of O_DIRECT, a copy in quarantine, what is none of ours.
    Other,
}

/// Which of the operations that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// All of them.
    Always,
    /// One of them, counted from 0.
    Nth(u64),
    /// All from this one on.
    From(u64),
}

/// What becomes of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Nothing is done, and this error is answered.
    Errno(i32),
    /// A read or write of more than a block does its first half, in whole blocks. Others pass.
    /// Through io_uring reads only: the kernel turns a short write into EIO there.
    Short,
    /// As `Short`, but cut in the middle of a block.
    Ragged,
    /// It is done after this long.
    Slow(Duration),
    /// It is done, or answered with an error, when the trouble ends.
    Held {
        /// The error.
        then: Option<i32>,
    },
}

/// What is answered how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The operation.
    pub op: Op,
    /// Of files of this kind; of all where `None`.
    pub kind: Option<Kind>,
    /// Below the directory of this partition, of any topic; anywhere where `None`.
    pub partition: Option<u32>,
    /// Which of them.
    pub when: When,
    /// How.
    pub answer: Answer,
}

impl Rule {
    /// Every `op` on a file of `kind` is answered so.
    #[must_use]
    pub const fn new(op: Op, kind: Kind, answer: Answer) -> Rule {
        Rule { op, kind: Some(kind), partition: None, when: When::Always, answer }
    }

    /// Every `op`, on whatever file.
    #[must_use]
    pub const fn any(op: Op, answer: Answer) -> Rule {
        Rule { op, kind: None, partition: None, when: When::Always, answer }
    }

    /// In this partition's directory only.
    #[must_use]
    pub const fn of(self, partition: u32) -> Rule {
        Rule { partition: Some(partition), ..self }
    }

    /// Not always.
    #[must_use]
    pub const fn when(self, when: When) -> Rule {
        Rule { when, ..self }
    }

    fn is_about(&self, op: Op, subject: &Subject) -> bool {
        self.op == op
            && self.kind.is_none_or(|kind| kind == subject.kind)
            && self.partition.is_none_or(|partition| Some(partition) == subject.partition)
    }
}

/// What an operation is done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) kind: Kind,
    pub(super) partition: Option<u32>,
}

impl Subject {
    pub(super) fn file(path: &Path) -> Subject {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let quarantined = path.components().any(|part| part.as_os_str() == "quarantine");
        let kind = match name {
            _ if quarantined => Kind::Other,
            "LOCK" => Kind::Lock,
            _ if name.starts_with("manifest") => Kind::Manifest,
            _ if name.starts_with("catalog") => Kind::Catalog,
            _ if name.starts_with("clock") => Kind::Clock,
            _ if name.contains(".log") => Kind::Log,
            _ if name.contains(".index") => Kind::Index,
            _ => Kind::Other,
        };
        Subject { kind, partition: partition_of(path) }
    }

    pub(super) fn dir(path: &Path) -> Subject {
        Subject { kind: Kind::Dir, partition: partition_of(path) }
    }
}

fn partition_of(path: &Path) -> Option<u32> {
    let mut parts = path.components().map(|part| part.as_os_str());
    parts.find(|part| *part == "partitions")?;
    parts.next()?.to_str()?.parse().ok()
}

/// What the file system is to do with an operation, after a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Pass,
    Short,
    Ragged,
    Errno(i32),
}

/// How long an operation waits before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    /// So long, but not beyond the trouble of this number.
    For(Duration, u64),
    /// Until that trouble ends.
    Until(u64),
}

/// The rules that are in force.
#[derive(Default)]
pub(super) struct Rules {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Counts the troubles: one that has ended has another number.
    trouble: u64,
    rules: Vec<Counted>,
    /// Operations that wait for the end of the trouble.
    held: usize,
    past: Vec<Counted>,
}

struct Counted {
    rule: Rule,
    met: u64,
    hits: u64,
}

impl Rules {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, rules: &[Rule]) {
        let counted = |rule: &Rule| Counted { rule: *rule, met: 0, hits: 0 };
        self.state().rules.extend(rules.iter().map(counted));
    }

    pub(super) fn end(&self) {
        let mut state = self.state();
        state.trouble += 1;
        let ended = std::mem::take(&mut state.rules);
        state.past.extend(ended);
        self.changed.notify_all();
    }

    /// How often each rule was applied, those that ended first.
    pub(super) fn hits(&self) -> Vec<(Rule, u64)> {
        let state = self.state();
        state.past.iter().chain(&state.rules).map(|one| (one.rule, one.hits)).collect()
    }

    pub(super) fn held(&self) -> usize {
        self.state().held
    }

    /// The first rule about the operation that applies now decides.
    pub(super) fn meet(&self, op: Op, subject: &Subject) -> (Wait, Told) {
        let mut state = self.state();
        let trouble = state.trouble;
        for counted in &mut state.rules {
            if !counted.rule.is_about(op, subject) {
                continue;
            }
            let number = counted.met;
            counted.met += 1;
            let applies = match counted.rule.when {
                When::Always => true,
                When::Nth(nth) => number == nth,
                When::From(first) => number >= first,
            };
            if applies {
                counted.hits += 1;
                return match counted.rule.answer {
                    Answer::Errno(errno) => (Wait::No, Told::Errno(errno)),
                    Answer::Short => (Wait::No, Told::Short),
                    Answer::Ragged => (Wait::No, Told::Ragged),
                    Answer::Slow(time) => (Wait::For(time, trouble), Told::Pass),
                    Answer::Held { then } => {
                        state.held += 1;
                        (Wait::Until(trouble), then.map_or(Told::Pass, Told::Errno))
                    }
                };
            }
        }
        (Wait::No, Told::Pass)
    }

    /// Waits as `wait` says; what is slow goes on at once when the trouble ends.
    pub(super) fn wait(&self, wait: Wait) {
        let mut state = self.state();
        let (trouble, until) = match wait {
            Wait::No => return,
            Wait::For(time, trouble) => (trouble, Some(Instant::now() + time)),
            Wait::Until(trouble) => (trouble, None),
        };
        while state.trouble == trouble {
            let left = match until {
                Some(until) => until.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3600),
            };
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if until.is_none() {
            state.held -= 1;
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule { op, kind, partition, when, answer } = self;
        write!(f, "{op:?}")?;
        if let Some(kind) = kind {
            write!(f, " {kind:?}")?;
        }
        if let Some(partition) = partition {
            write!(f, " of partition {partition}")?;
        }
        match answer {
            Answer::Errno(errno) => write!(f, ": {}", std::io::Error::from_raw_os_error(*errno))?,
            answer => write!(f, ": {answer:?}")?,
        }
        match when {
            When::Always => Ok(()),
            when => write!(f, " ({when:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_name_and_place() {
        let of = |path: &str| {
            let subject = Subject::file(Path::new(path));
            (subject.kind, subject.partition)
        };
        let partition = "streams/0/topics/1/partitions/7";
        assert_eq!(of(&format!("{partition}/00000000000000000000.log")), (Kind::Log, Some(7)));
        assert_eq!(of(&format!("{partition}/00000000000000000000.index")), (Kind::Index, Some(7)));
        assert_eq!(of(&format!("{partition}/manifest")), (Kind::Manifest, Some(7)));
        assert_eq!(of(&format!("{partition}/quarantine/0.log.5")), (Kind::Other, Some(7)));
        assert_eq!(of("LOCK"), (Kind::Lock, None));
        assert_eq!(of("clock.tmp"), (Kind::Clock, None));
        assert_eq!(of("catalog.redb"), (Kind::Catalog, None));
        assert_eq!(of(".probe-17"), (Kind::Other, None));
    }

    #[test]
    fn rules_count_what_they_are_about_and_end_together() {
        let rules = Rules::default();
        let log = Subject { kind: Kind::Log, partition: Some(3) };
        let answer = Answer::Errno(libc::EIO);
        rules.begin(&[
            Rule::new(Op::Write, Kind::Log, answer).of(3).when(When::Nth(1)),
            Rule::any(Op::Write, Answer::Short).when(When::From(1)),
        ]);
        let meet = || rules.meet(Op::Write, &log).1;
        let want = [Told::Pass, Told::Errno(libc::EIO), Told::Short, Told::Short];
        assert_eq!([meet(), meet(), meet(), meet()], want);
        assert_eq!(rules.meet(Op::Read, &log).1, Told::Pass);
        let counts = |rules: &Rules| rules.hits().iter().map(|(_, hits)| *hits).collect::<Vec<_>>();
        assert_eq!(counts(&rules), [1, 2]);
        rules.end();
        assert_eq!((meet(), counts(&rules)), (Told::Pass, vec![1, 2]));
    }

    #[test]
    fn what_is_held_goes_on_when_the_trouble_ends() {
        let rules = Rules::default();
        let subject = Subject { kind: Kind::Dir, partition: None };
        rules.begin(&[Rule::any(Op::SyncDir, Answer::Held { then: Some(libc::EIO) })]);
        let (wait, told) = rules.meet(Op::SyncDir, &subject);
        assert_eq!((told, rules.held()), (Told::Errno(libc::EIO), 1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| rules.wait(wait));
            assert!(!waiting.is_finished());
            rules.end();
        });
        assert_eq!(rules.held(), 0);
    }
}
