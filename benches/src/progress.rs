//! How far a run is, on a terminal. Nothing in pipes and logs, and no colour anywhere, so there is
//! nothing for NO_COLOR to take away.

use std::fmt;
use std::time::{Duration, Instant};

use indicatif::style::ProgressTracker;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::live::{Live, Speed};

/// How often the clock on the line moves.
const TICK: Duration = Duration::from_millis(250);

const TEMPLATE: &str = "{wide_bar} {msg}{speed}, {elapsed} gone{left}";

/// A line that is redrawn in place, on stderr. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// What is counted: "round".
    word: &'static str,
    count: u64,
    /// Of each of them.
    steps: u64,
}

impl Progress {
    /// For so many of something; `quiet` draws nothing. Neither does a stderr that is no terminal.
    pub(crate) fn new(word: &'static str, count: u32, quiet: bool) -> Progress {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(4)
        };
        let count = u64::from(count);
        let bar = ProgressBar::with_draw_target(Some(count), target);
        bar.set_style(style(Live::default()));
        Progress { bar, word, count, steps: 1 }
    }

    /// The same with the speed of what is counted there.
    pub(crate) fn with_speed_of(self, live: &Live) -> Progress {
        self.bar.set_style(style(live.clone()));
        self
    }

    /// The same where each of them has so many steps, at least 1.
    pub(crate) fn in_steps(mut self, steps: usize) -> Progress {
        self.steps = steps as u64;
        self.bar.set_length(self.count * self.steps);
        self
    }

    /// The next one begins, numbered from 0.
    pub(crate) fn begin(&self, number: u32) {
        let (word, count) = (self.word, self.count);
        self.at(number, 0, format!("{word} {} of {count}", u64::from(number) + 1));
    }

    /// A step of it begins, numbered from 0, with its name.
    pub(crate) fn begin_step(&self, number: u32, step: usize, name: &str) {
        let (word, count) = (self.word, self.count);
        self.at(number, step, format!("{word} {} of {count}: {name}", u64::from(number) + 1));
    }

    fn at(&self, number: u32, step: usize, message: String) {
        self.bar.set_message(message);
        self.bar.set_position(u64::from(number) * self.steps + step as u64);
        if !self.bar.is_hidden() {
            self.bar.enable_steady_tick(TICK);
        }
    }

    /// Prints something else meanwhile, without the line in its way.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

fn style(live: Live) -> ProgressStyle {
    let style = ProgressStyle::with_template(TEMPLATE).expect("the template is ours");
    let style = style.progress_chars("#>-").with_key("left", left);
    style.with_key("speed", Now { live, speed: Speed::default() })
}

/// How long it will still take; nothing before the first step has ended, which would be no time.
fn left(state: &ProgressState, to: &mut dyn fmt::Write) {
    if state.pos() > 0 {
        let _ = write!(to, ", about {:#} to go", HumanDuration(state.eta()));
    }
}

/// The speed on the line, looked at whenever its clock moves.
#[derive(Debug, Clone)]
struct Now {
    live: Live,
    speed: Speed,
}

impl ProgressTracker for Now {
    fn clone_box(&self) -> Box<dyn ProgressTracker> {
        Box::new(self.clone())
    }

    fn tick(&mut self, _: &ProgressState, now: Instant) {
        self.speed.look(now, self.live.total());
    }

    fn reset(&mut self, _: &ProgressState, _: Instant) {
        self.speed = Speed::default();
    }

    fn write(&self, _: &ProgressState, to: &mut dyn fmt::Write) {
        // There is nobody to tell of a buffer in memory that takes no more.
        let _ = write!(to, "{}", self.speed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_rounds_and_draws_nothing_where_nobody_looks() {
        // Tests have no terminal, so both are hidden.
        for quiet in [true, false] {
            let progress = Progress::new("round", 3, quiet);
            progress.begin(1);
            assert_eq!(progress.bar.position(), 1);
            assert_eq!(progress.bar.message(), "round 2 of 3");
            let progress = progress.in_steps(4);
            progress.begin_step(2, 3, "verify");
            assert_eq!((progress.bar.position(), progress.bar.length()), (11, Some(12)));
            assert_eq!(progress.bar.message(), "round 3 of 3: verify");
            assert!(!quiet || progress.bar.is_hidden());
        }
    }
}
