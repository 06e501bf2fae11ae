//! The connections of a shard, looked at now and then.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::life::{Ended, Life, Phase};
use super::overdue::{Short, Watch};
use super::{ClientsMay, Signal};

/// Time between two looks at most.
const LOOK_MAX: Duration = Duration::from_millis(500);

/// All that live on a shard.
#[derive(Default)]
pub(crate) struct Lives {
    all: RefCell<HashMap<u64, (Rc<Life>, Watch)>>,
    next: Cell<u64>,
    stop: Signal,
}

/// A connection among them, until this is dropped.
pub(crate) struct Living {
    lives: Rc<Lives>,
    number: u64,
    life: Rc<Life>,
}

impl Lives {
    /// One more.
    pub(crate) fn begin(self: &Rc<Self>) -> Living {
        let (number, life) = (self.next.get(), Rc::new(Life::default()));
        self.next.set(number + 1);
        let watch = Watch::new(life.seen(), Instant::now());
        self.all.borrow_mut().insert(number, (Rc::clone(&life), watch));
        Living { lives: Rc::clone(self), number, life }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.all.borrow().len()
    }

    /// Ends those that take too long. `short_of_frames` and `short_of_replies`: whether somebody
    /// waits for such memory.
    pub(crate) fn look(&self, may: &ClientsMay, short_of_frames: bool, short_of_replies: bool) {
        let now = Instant::now();
        let short = Short { of_frames: short_of_frames, of_replies: short_of_replies };
        for (life, watch) in self.all.borrow_mut().values_mut() {
            if let Some(why) = watch.overdue(life.seen(), now, may, short) {
                life.end(why);
            }
        }
    }

    /// From now on no frame is begun: who is idle ends at once, the others behind their answer.
    pub(crate) fn stop(&self) {
        self.stop.give();
        for (life, _) in self.all.borrow().values() {
            if life.seen().phase == Phase::Idle {
                life.end(Ended::Stopping);
            }
        }
    }

    /// Given by [`Lives::stop`]. For the task that accepts connections.
    pub(crate) fn stopping(&self) -> &Signal {
        &self.stop
    }

    /// Time between two looks: a fraction of the shortest time that somebody has.
    pub(crate) fn interval(may: &ClientsMay) -> Duration {
        let times = [may.login_timeout, may.idle_timeout, may.frame_timeout, may.reply_timeout];
        let shortest = times.into_iter().min().expect("there are four");
        (shortest / 4).clamp(Duration::from_millis(5), LOOK_MAX)
    }
}

impl Living {
    pub(crate) fn life(&self) -> &Rc<Life> {
        &self.life
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.lives.all.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn a_stop_ends_the_idle_and_lets_the_others_finish() {
        let lives = Rc::new(Lives::default());
        let (idle, busy) = (lives.begin(), lives.begin());
        busy.life().received(1);
        lives.stop();
        assert_eq!(block_on(poll_once(idle.life().ended())), Some(Ended::Stopping));
        assert_eq!(block_on(poll_once(busy.life().ended())), None);
        assert!(lives.stopping().is_given());
        drop(idle);
        assert_eq!(lives.count(), 1);
    }

    #[test]
    fn who_takes_too_long_is_ended_by_a_look() {
        let lives = Rc::new(Lives::default());
        let one = lives.begin();
        one.life().stranger(false);
        let may = ClientsMay { idle_timeout: Duration::ZERO, ..ClientsMay::default() };
        std::thread::sleep(Duration::from_millis(1));
        lives.look(&may, false, false);
        assert_eq!(block_on(poll_once(one.life().ended())), Some(Ended::Idle));
        let may = ClientsMay { idle_timeout: Duration::from_millis(1), ..may };
        assert_eq!(Lives::interval(&may), Duration::from_millis(5));
    }
}
