//! Trouble drawn from a seed: which operations are answered how, for how long.

use std::fmt;
use std::time::Duration;

use crate::random::Random;

use super::rules::{Answer, Kind, Op, Rule, When};
use super::stage::PARTITIONS;

/// Rules that hold together for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) rules: Vec<Rule>,
    pub(super) lasts: Duration,
    /// Poisoned partitions are reopened while it lasts, not only behind it.
    pub(super) reopens: bool,
}

/// What can be answered with which errors. `Kind::Other` stands for all kinds.
const ERRORS: &[(Op, Kind, &[i32])] = {
    use libc::{EACCES, EAGAIN, EDQUOT, EINTR, EIO, EMFILE, ENFILE, ENOSPC, EROFS};
    &[
        (Op::Write, Kind::Log, &[EIO, EIO, ENOSPC, EDQUOT, EROFS, EINTR, EAGAIN]),
        (Op::Write, Kind::Index, &[EIO, ENOSPC]),
        (Op::Write, Kind::Manifest, &[EIO, ENOSPC, EROFS]),
        (Op::Write, Kind::Clock, &[EIO, ENOSPC]),
        (Op::Write, Kind::Other, &[EIO, ENOSPC, EROFS]),
        (Op::Read, Kind::Log, &[EIO, EIO, EINTR, EAGAIN]),
        (Op::Read, Kind::Index, &[EIO]),
        (Op::Fdatasync, Kind::Log, &[EIO, ENOSPC, EDQUOT]),
        (Op::Fsync, Kind::Log, &[EIO]),
        (Op::Fdatasync, Kind::Manifest, &[EIO]),
        (Op::Fdatasync, Kind::Clock, &[EIO]),
        (Op::Fdatasync, Kind::Other, &[EIO, ENOSPC]),
        (Op::SyncDir, Kind::Dir, &[EIO]),
        (Op::Open, Kind::Log, &[EMFILE, ENFILE, EACCES, EIO]),
        (Op::Open, Kind::Index, &[EMFILE, EIO]),
        (Op::Open, Kind::Dir, &[EMFILE, EIO]),
        (Op::Create, Kind::Log, &[EMFILE, ENOSPC, EROFS, EIO, EDQUOT]),
        (Op::Create, Kind::Index, &[EIO, ENOSPC, EMFILE]),
        (Op::Create, Kind::Other, &[EIO, ENOSPC, EMFILE, EROFS]),
        (Op::Allocate, Kind::Log, &[ENOSPC, ENOSPC, EDQUOT, EIO]),
        (Op::Truncate, Kind::Log, &[EIO]),
        (Op::Rename, Kind::Other, &[EIO, EROFS]),
        (Op::Unlink, Kind::Other, &[EIO, EROFS]),
    ]
};

/// What may hang until the trouble ends. FUSE keeps the inode's lock for syncs and allocations of a
/// log, so that a whole shard would wait: see docs/testing.md.
const HANGS: &[(Op, Kind)] = &[
    (Op::Write, Kind::Log),
    (Op::Read, Kind::Log),
    (Op::Create, Kind::Log),
    (Op::SyncDir, Kind::Dir),
    (Op::Write, Kind::Manifest),
];

/// A running engine's.
pub(super) fn drawn(random: &mut Random) -> Trouble {
    let count = random.pick(&[1, 1, 1, 2, 2, 3, 4]);
    let rules: Vec<Rule> = (0..count).map(|_| rule(random)).collect();
    let lasts = Duration::from_millis(random.pick(&[1, 10, 50, 200, 500, 1_500]));
    // What a recovery cannot read it keeps, and goes on behind it: then offsets are not dense.
    let hides = |rule: &Rule| matches!(rule.op, Op::Read | Op::Open | Op::List | Op::Lookup);
    let reopens = random.once_in(2) && !rules.iter().any(hides);
    Trouble { rules, lasts, reopens }
}

/// An opening's: everything but what would hide data, which is answered by damage that is named.
pub(super) fn of_opening(random: &mut Random) -> Trouble {
    loop {
        let mut trouble = drawn(random);
        let waits = |rule: &Rule| matches!(rule.answer, Answer::Held { .. });
        let hides = |rule: &Rule| matches!(rule.op, Op::Read | Op::Open | Op::List | Op::Lookup);
        trouble.rules.retain(|rule| !waits(rule) && !hides(rule));
        if !trouble.rules.is_empty() {
            return trouble;
        }
    }
}

fn rule(random: &mut Random) -> Rule {
    let (op, kind, answer) = match random.below(10) {
        0..=5 => {
            let (op, kind, errors) = random.pick(ERRORS);
            (op, kind, Answer::Errno(random.pick(errors)))
        }
        6 => (Op::Read, Kind::Log, random.pick(&[Answer::Short, Answer::Ragged])),
        7 | 8 => {
            let (op, kind, _) = random.pick(ERRORS);
            (op, kind, Answer::Slow(Duration::from_millis(random.pick(&[1, 10, 100, 400]))))
        }
        _ => {
            let (op, kind) = random.pick(HANGS);
            let then = random.pick(&[None, None, Some(libc::EIO)]);
            (op, kind, Answer::Held { then })
        }
    };
    let rule = match kind {
        Kind::Other => Rule::any(op, answer),
        kind => Rule::new(op, kind, answer),
    };
    let rule = rule.when(match random.below(4) {
        0 | 1 => When::Always,
        2 => When::Nth(random.below(20)),
        _ => When::From(random.below(20)),
    });
    // The clock record is no partition's.
    match kind != Kind::Clock && !random.once_in(4) {
        true => rule.of(random.below(u64::from(PARTITIONS)) as u32),
        false => rule,
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trouble { rules, lasts, reopens } = self;
        let rules: Vec<String> = rules.iter().map(Rule::to_string).collect();
        write!(f, "{} for {lasts:?}", rules.join(" + "))?;
        if *reopens { f.write_str(", reopening meanwhile") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_trouble_and_many_give_all_of_it() {
        let of = |seed| drawn(&mut Random::new(seed));
        assert_eq!(of(7), of(7));
        let all: Vec<Rule> = (0..4_000).flat_map(|seed| of(seed).rules).collect();
        for (op, kind, errors) in ERRORS {
            for errno in *errors {
                let is = |rule: &&Rule| {
                    let same = rule.kind == Some(*kind) || *kind == Kind::Other;
                    rule.op == *op && same && rule.answer == Answer::Errno(*errno)
                };
                assert!(all.iter().any(|rule| is(&rule)), "{op:?} of {kind:?}: {errno}");
            }
        }
        for (op, kind) in HANGS {
            let hangs = |rule: &Rule| {
                let waits = matches!(rule.answer, Answer::Held { .. });
                waits && (rule.op, rule.kind) == (*op, Some(*kind))
            };
            assert!(all.iter().any(hangs), "{op:?} of {kind:?}");
        }
        let opening = (0..400).flat_map(|seed| of_opening(&mut Random::new(seed)).rules);
        assert!(opening.into_iter().all(|rule| rule.op != Op::Read));
    }
}
