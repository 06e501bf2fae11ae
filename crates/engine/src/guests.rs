//! Code of the embedder on a shard: how it gets there, and how it is ended.
//!
//! [`Door`] is seen from other threads: jobs are put in, the shard takes them out. [`Guests`] lives
//! on the shard: the tasks that came through the door or were spawned by others. When the shard has
//! closed they are dropped, on their own thread, before its executor goes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

use crate::ShardContext;
use crate::run::{Answer, GiveUp};

/// Jobs that wait for one shard; more are answered `Busy`.
const WAITING_MAX: usize = 1024;

/// A job: called on the shard, the future runs there.
pub(crate) type Job = Box<dyn FnOnce(ShardContext) -> Task + Send>;
/// A task of a guest.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The way onto a shard from other threads.
#[derive(Default)]
pub(crate) struct Door {
    state: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    waker: Option<Waker>,
    closed: bool,
    /// Where jobs answer that went in. Those that are gone are taken off when there are `looked_at`.
    answers: Vec<Weak<dyn GiveUp>>,
    looked_at: usize,
}

impl Waiting {
    fn remember(&mut self, answer: Weak<dyn GiveUp>) {
        if self.answers.len() >= self.looked_at {
            self.answers.retain(|answer| answer.strong_count() > 0);
            self.looked_at = (2 * self.answers.len()).max(64);
        }
        self.answers.push(answer);
    }
}

/// Why a job did not get in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Busy,
    Closed,
}

impl Door {
    /// Puts a job in. Never waits.
    pub(crate) fn enter(&self, job: Job) -> Result<(), Refused> {
        let mut state = self.lock();
        if state.closed {
            return Err(Refused::Closed);
        }
        if state.jobs.len() >= WAITING_MAX {
            return Err(Refused::Busy);
        }
        state.jobs.push_back(job);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// [`Door::enter`], for a job that answers at `answer`: [`Door::fail`] tells whoever waits there.
    pub(crate) fn enter_answering<T: Send + 'static>(
        &self,
        job: Job,
        answer: &Arc<Answer<T>>,
    ) -> Result<(), Refused> {
        // Before the job goes in: the shard may end at any time behind that.
        let weak = Arc::downgrade(answer);
        self.lock().remember(weak);
        self.enter(job)
    }

    /// The next job; `None` once the door is closed. One task at a time may await this.
    pub(crate) async fn next(&self) -> Option<Job> {
        poll_fn(|cx| {
            let mut state = self.lock();
            if let Some(job) = state.jobs.pop_front() {
                return Poll::Ready(Some(job));
            }
            if state.closed {
                return Poll::Ready(None);
            }
            let old = state.waker.replace(cx.waker().clone());
            drop(state);
            drop(old);
            Poll::Pending
        })
        .await
    }

    /// Lets nobody in any more and drops who waits. Callable from any thread, any number of times.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let (jobs, waker) = (std::mem::take(&mut state.jobs), state.waker.take());
        drop(state);
        drop(jobs);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Closes, and answers for the jobs that went in and were not dropped: their shard is gone, or
    /// dead. Callable from any thread, any number of times.
    pub(crate) fn fail(&self) {
        self.close();
        let answers = std::mem::take(&mut self.lock().answers);
        answers.iter().filter_map(Weak::upgrade).for_each(|answer| answer.give_up());
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The embedder's tasks on one shard. Cheap to clone; local to the shard's thread.
#[derive(Clone, Default)]
pub(crate) struct Guests {
    house: Rc<House>,
}

#[derive(Default)]
struct House {
    closed: Cell<bool>,
    /// Wakers of the tasks that are here, by their places.
    places: RefCell<Vec<Place>>,
    free: RefCell<Vec<usize>>,
    present: Cell<usize>,
    waiting_for_all: RefCell<Option<Waker>>,
}

#[derive(Default)]
enum Place {
    #[default]
    Free,
    Taken(Option<Waker>),
}

impl Guests {
    /// `task` as one that [`Guests::leave`] ends. Its panics pass through, for the spawner's own
    /// containment; what it owns is dropped when it ends, and a panic of that is contained here.
    pub(crate) fn hosted<F>(&self, task: F) -> impl Future<Output = ()> + use<F>
    where
        F: Future<Output = ()> + 'static,
    {
        let guest = Guest { house: Rc::clone(&self.house), place: self.house.take_place() };
        let mut task = Some(Box::pin(task));
        async move {
            poll_fn(|cx| {
                if guest.house.closed.get() {
                    let task = task.take();
                    let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
                    return Poll::Ready(());
                }
                guest.house.note(guest.place, cx.waker());
                task.as_mut().map_or(Poll::Ready(()), |task| task.as_mut().poll(cx))
            })
            .await;
            drop(guest);
        }
    }

    /// Ends all tasks, and is done when all of them are dropped. Later ones end at once.
    pub(crate) async fn leave(&self) {
        self.house.closed.set(true);
        let places = std::mem::take(&mut *self.house.places.borrow_mut());
        let wakers = places.into_iter().filter_map(|place| match place {
            Place::Taken(waker) => waker,
            Place::Free => None,
        });
        wakers.for_each(Waker::wake);
        poll_fn(|cx| {
            if self.house.present.get() == 0 {
                return Poll::Ready(());
            }
            self.house.waiting_for_all.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

impl House {
    fn take_place(&self) -> usize {
        self.present.set(self.present.get() + 1);
        let mut places = self.places.borrow_mut();
        let place = self.free.borrow_mut().pop().unwrap_or_else(|| {
            places.push(Place::Free);
            places.len() - 1
        });
        if let Some(entry) = places.get_mut(place) {
            *entry = Place::Taken(None);
        }
        place
    }

    fn note(&self, place: usize, waker: &Waker) {
        let mut places = self.places.borrow_mut();
        if let Some(Place::Taken(known)) = places.get_mut(place) {
            match known {
                Some(known) => known.clone_from(waker),
                None => *known = Some(waker.clone()),
            }
        }
    }
}

/// A task's stay, which ends when this is dropped.
struct Guest {
    house: Rc<House>,
    place: usize,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let left = self.house.places.borrow_mut().get_mut(self.place).map(std::mem::take);
        if left.is_some() {
            self.house.free.borrow_mut().push(self.place);
        }
        drop(left);
        self.house.present.set(self.house.present.get() - 1);
        if self.house.present.get() == 0 {
            let waiter = self.house.waiting_for_all.take();
            waiter.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn leaving_drops_every_task_and_lets_no_new_one_run() {
        let guests = Guests::default();
        let held = Rc::new(());
        let inside = Rc::clone(&held);
        let mut task = pin!(guests.hosted(async move {
            std::future::pending::<()>().await;
            drop(inside);
        }));
        let mut done = pin!(guests.hosted(async {}));
        assert!(poll(done.as_mut()).is_ready());
        assert!(poll(task.as_mut()).is_pending());
        let other = guests.clone();
        let mut leave = pin!(other.leave());
        assert!(poll(leave.as_mut()).is_pending(), "a task is still here");
        assert!(poll(task.as_mut()).is_ready());
        assert_eq!(Rc::strong_count(&held), 1, "what it owned is dropped");
        assert!(poll(leave.as_mut()).is_ready());
        let mut late = pin!(guests.hosted(async { panic!("it must not run") }));
        assert!(poll(late.as_mut()).is_ready());
    }

    #[test]
    fn a_task_that_is_dropped_unpolled_is_gone() {
        let guests = Guests::default();
        drop(guests.hosted(async {}));
        assert!(poll(pin!(guests.leave())).is_ready());
    }

    #[test]
    fn places_are_used_again() {
        let guests = Guests::default();
        for _ in 0..100 {
            assert!(poll(pin!(guests.hosted(async {}))).is_ready());
        }
        assert_eq!(guests.house.places.borrow().len(), 1);
    }

    #[test]
    fn the_door_lets_in_until_it_is_closed_or_full() {
        let door = Door::default();
        let job = || -> Job { Box::new(|_| Box::pin(async {})) };
        for _ in 0..WAITING_MAX {
            door.enter(job()).unwrap();
        }
        assert_eq!(door.enter(job()), Err(Refused::Busy));
        assert!(matches!(poll(pin!(door.next())), Poll::Ready(Some(_))));
        door.close();
        assert_eq!(door.enter(job()), Err(Refused::Closed));
        assert!(matches!(poll(pin!(door.next())), Poll::Ready(None)));
    }

    #[test]
    fn who_waits_for_a_job_hears_of_the_end_though_the_job_is_never_dropped() {
        let door = Door::default();
        let job = || -> Job { Box::new(|_| Box::pin(async {})) };
        let (done, answer) = oneshot::channel::<u8>();
        let place = Answer::new(done);
        door.enter_answering(job(), &place).unwrap();
        std::mem::forget(poll(pin!(door.next())));
        door.fail();
        assert!(answer.recv().is_err());
        drop(place);
        // Answers of jobs that are gone are forgotten.
        let door = Door::default();
        for _ in 0..1_000 {
            door.enter_answering(job(), &Answer::new(oneshot::channel::<u8>().0)).unwrap();
            drop(poll(pin!(door.next())));
        }
        assert!(door.lock().answers.len() <= 64);
    }
}
