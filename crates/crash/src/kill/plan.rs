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
    /// So long after the operator asked for the so many-th change of the catalog.
    Change(u64, Duration),
    /// So long after it was open.
    Running(Duration),
    /// It begins to close after this number of answers; so long after that.
    Closing(u64, Duration),
    /// It closes after this number of answers, and is let.
    Closed(u64),
}

/// Most lives of a round.
pub(super) const LIVES_MAX: usize = 6;

/// One life: when it ends, and whether it appends, or opens what others left and does nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) moment: Moment,
    pub(super) only_opens: bool,
}

/// One round: lives on the same directory, one after the other; then the judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) lives: Vec<Planned>,
    /// Whether the judge opens a second time.
    pub(super) reopen: bool,
    /// Shards of the judge's engine.
    pub(super) judge_shards: usize,
}

impl Plan {
    /// The plan of `round` in the directory with this seed.
    pub(super) fn draw(seed: u64, round: u64) -> Plan {
        let mut random = Random::of(&[seed, round]);
        // Opening takes some 20 ms, and ten times as long where the topics are created.
        let opening = Duration::from_millis(if round == 0 { 300 } else { 30 });
        let moment = Moment::draw(&mut random, opening);
        let mut lives = vec![Planned { moment, only_opens: false }];
        while lives.len() < LIVES_MAX && random.once_in(3) {
            let only_opens = random.once_in(2);
            let moment = match only_opens {
                true => Moment::Opening(below(&mut random, Duration::from_millis(25))),
                false => Moment::draw(&mut random, Duration::from_millis(30)),
            };
            lives.push(Planned { moment, only_opens });
        }
        let (reopen, judge_shards) = (random.once_in(4), random.between(1, 3) as usize);
        Plan { lives, reopen, judge_shards }
    }
}

fn below(random: &mut Random, end: Duration) -> Duration {
    Duration::from_micros(random.below(end.as_micros() as u64))
}

impl Moment {
    /// Any moment; `opening` is about as long as an opening takes.
    fn draw(random: &mut Random, opening: Duration) -> Moment {
        let answers = random.between(1, 200);
        match random.below(16) {
            0..=2 => Moment::Opening(below(random, opening)),
            3..=5 => Moment::Answer(answers, Duration::ZERO),
            6..=7 => Moment::Answer(answers, below(random, Duration::from_millis(2))),
            8..=9 => {
                let nth = random.between(1, 6);
                Moment::Change(nth, below(random, Duration::from_millis(8)))
            }
            10..=11 => Moment::Running(below(random, Duration::from_millis(150))),
            // A close takes as long as an opening.
            12..=14 => Moment::Closing(answers, below(random, Duration::from_millis(15))),
            _ => Moment::Closed(answers),
        }
    }
}

impl Moment {
    /// A name for the count of what was reached.
    pub(super) fn name(self) -> &'static str {
        match self {
            Moment::Opening(_) => "while opening",
            Moment::Answer(..) => "after an answer",
            Moment::Change(..) => "in a change",
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
        let lives = || plans.iter().flat_map(|plan| &plan.lives);
        for name in [
            "while opening",
            "after an answer",
            "in a change",
            "while running",
            "while closing",
            "not killed, closed",
        ] {
            assert!(lives().any(|life| life.moment.name() == name), "{name}");
        }
        assert!(lives().any(|life| life.only_opens));
        let goes_on = |plan: &Plan| plan.lives.iter().filter(|life| !life.only_opens).count() > 1;
        assert!(plans.iter().any(goes_on) && !plans.iter().all(goes_on));
        assert!(plans.iter().all(|plan| plan.lives.len() <= LIVES_MAX));
    }
}
