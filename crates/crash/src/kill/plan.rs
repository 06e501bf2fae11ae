//! What happens in a round: drawn from the seed, so that a failure names it.

use std::time::Duration;

use crate::random::Random;

/// When a life is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// So long after it began to open the engine: before, in or after recovery and the creation of
    /// topics.
    Opening(Duration),
    /// So long after this number of answers.
    Answer(u64, Duration),
    /// So long after it was open.
    Running(Duration),
    /// It begins to close after this number of answers; so long after that.
    Closing(u64, Duration),
    /// It closes after this number of answers, and is let.
    Closed(u64),
}

/// One round: lives on the same directory, then the judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The life that appends.
    pub(super) moment: Moment,
    /// Lives that only open what it left, and are killed so long after they began.
    pub(super) recoveries: Vec<Duration>,
    /// Whether the judge opens a second time.
    pub(super) reopen: bool,
    /// Shards of the judge's engine.
    pub(super) judge_shards: usize,
}

impl Plan {
    /// The plan of `round` in the directory with this seed.
    pub(super) fn draw(seed: u64, round: u64) -> Plan {
        let mut random = Random::of(&[seed, round]);
        let mut us = |max: u64| Duration::from_micros(random.below(max));
        // Opening takes some 20 ms, and ten times as long where the topics are created; a close
        // is as quick.
        let opening = us(if round == 0 { 300_000 } else { 30_000 });
        let (soon, running, closing) = (us(2_000), us(150_000), us(15_000));
        let recoveries = [us(20_000), us(20_000)];
        let answers = random.between(1, 200);
        let moment = match random.below(16) {
            0..=2 => Moment::Opening(opening),
            3..=5 => Moment::Answer(answers, Duration::ZERO),
            6..=7 => Moment::Answer(answers, soon),
            8..=11 => Moment::Running(running),
            12..=14 => Moment::Closing(answers, closing),
            _ => Moment::Closed(answers),
        };
        let kills = if random.once_in(4) { random.between(1, 2) } else { 0 };
        Plan {
            moment,
            recoveries: recoveries[..kills as usize].to_vec(),
            reopen: random.once_in(4),
            judge_shards: random.between(1, 3) as usize,
        }
    }
}

impl Moment {
    /// A name for the count of what was reached.
    pub(super) fn name(self) -> &'static str {
        match self {
            Moment::Opening(_) => "while opening",
            Moment::Answer(..) => "after an answer",
            Moment::Running(_) => "while running",
            Moment::Closing(..) => "while closing",
            Moment::Closed(_) => "not killed, closed",
        }
    }

    /// After how many answers the life closes the engine, if it does.
    pub(super) fn close_after(self) -> Option<u64> {
        match self {
            Moment::Closing(answers, _) | Moment::Closed(answers) => Some(answers),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_plan_and_many_give_every_moment() {
        assert_eq!(Plan::draw(7, 3), Plan::draw(7, 3));
        let plans: Vec<Plan> = (0..200).map(|round| Plan::draw(7, round)).collect();
        for name in ["while opening", "after an answer", "while running", "while closing"] {
            assert!(plans.iter().any(|plan| plan.moment.name() == name), "{name}");
        }
        assert!(plans.iter().any(|plan| plan.moment.name() == "not killed, closed"));
        for kills in 0..=2 {
            assert!(plans.iter().any(|plan| plan.recoveries.len() == kills), "{kills}");
        }
    }
}
