//! Futures in flight on a plain thread: start many, wait for whichever ends first.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::interrupt::{Interrupt, Interrupted};

/// How long a wait goes on before it looks whether the user stopped it.
const INTERRUPT_LOOK: Duration = Duration::from_millis(100);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Futures that were started and have not ended, each with the time it was started.
pub struct Outstanding<F> {
    futures: Vec<(Instant, Pin<Box<F>>)>,
    waker: Waker,
}

impl<F: Future> Outstanding<F> {
    /// None in flight; waits happen on the calling thread only.
    pub fn on_this_thread() -> Outstanding<F> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        Outstanding { futures: Vec::new(), waker }
    }

    /// How many are in flight.
    pub fn in_flight(&self) -> usize {
        self.futures.len()
    }

    /// Adds a future whose operation was begun at `since`, and polls it once, so that its engine
    /// works while this thread does something else.
    pub fn push(&mut self, since: Instant, future: F) -> Option<(F::Output, Duration)> {
        let mut future = Box::pin(future);
        match future.as_mut().poll(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(output) => Some((output, since.elapsed())),
            Poll::Pending => {
                self.futures.push((since, future));
                None
            }
        }
    }

    /// Waits until one has ended: its output, and how long it took from its start until it was seen
    /// here. None when none is in flight. The user may stop the wait: an engine that does not
    /// answer must not keep the command.
    pub fn wait_any(
        &mut self,
        interrupt: &Interrupt,
    ) -> Result<Option<(F::Output, Duration)>, Interrupted> {
        while !self.futures.is_empty() {
            if let Some(ended) = self.poll_all() {
                return Ok(Some(ended));
            }
            // A wake between the polls and here leaves its token: then this returns at once.
            thread::park_timeout(INTERRUPT_LOOK);
            interrupt.check()?;
        }
        Ok(None)
    }

    /// Waits until one has ended, but not beyond `deadline`: None then, or when none is in flight.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<(F::Output, Duration)> {
        loop {
            if let Some(ended) = self.poll_all() {
                return Some(ended);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.futures.is_empty() || left.is_zero() {
                return None;
            }
            thread::park_timeout(left);
        }
    }

    fn poll_all(&mut self) -> Option<(F::Output, Duration)> {
        let mut context = Context::from_waker(&self.waker);
        for at in 0..self.futures.len() {
            let (since, future) = &mut self.futures[at];
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                let took = since.elapsed();
                // In order, the oldest first: most likely the next to end.
                drop(self.futures.remove(at));
                return Some((output, took));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A future that another thread ends, and its other end.
    #[derive(Clone, Default)]
    struct Door(Arc<Mutex<(Option<u32>, Option<Waker>)>>);

    impl Door {
        fn open(&self, value: u32) {
            let mut state = self.0.lock().unwrap();
            state.0 = Some(value);
            if let Some(waker) = state.1.take() {
                waker.wake();
            }
        }
    }

    impl Future for Door {
        type Output = u32;

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
            let mut state = self.0.lock().unwrap();
            match state.0 {
                Some(value) => Poll::Ready(value),
                None => {
                    state.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }
    }

    #[test]
    fn whichever_ends_first_is_returned_first_and_none_is_lost() {
        let doors: Vec<Door> = (0..100).map(|_| Door::default()).collect();
        let mut outstanding = Outstanding::on_this_thread();
        for door in &doors {
            assert!(outstanding.push(Instant::now(), door.clone()).is_none());
        }
        doors[70].open(70);
        let interrupt = Interrupt::default();
        let mut wait = || outstanding.wait_any(&interrupt).unwrap();
        assert_eq!(wait().unwrap().0, 70);
        let mut seen: Vec<u32> = thread::scope(|scope| {
            scope.spawn(|| {
                for (number, door) in doors.iter().enumerate().rev() {
                    door.open(number as u32);
                    thread::yield_now();
                }
            });
            std::iter::from_fn(&mut wait).map(|(value, _)| value).collect()
        });
        seen.sort_unstable();
        let expected: Vec<u32> = (0..100).filter(|number| *number != 70).collect();
        assert_eq!(seen, expected);
        assert_eq!(outstanding.in_flight(), 0);
    }

    #[test]
    fn an_operation_is_timed_from_its_start() {
        let since = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
        let mut outstanding = Outstanding::on_this_thread();
        let (value, took) = outstanding.push(since, std::future::ready(1)).unwrap();
        assert_eq!(value, 1);
        assert!(took >= Duration::from_secs(5));
        assert!(outstanding.wait_any(&Interrupt::default()).unwrap().is_none());
    }

    #[test]
    fn a_wait_ends_at_its_deadline_or_with_an_answer() {
        let door = Door::default();
        let mut outstanding = Outstanding::on_this_thread();
        assert!(outstanding.wait_until(Instant::now() + Duration::from_secs(60)).is_none());
        assert!(outstanding.push(Instant::now(), door.clone()).is_none());
        assert!(outstanding.wait_until(Instant::now() + Duration::from_millis(5)).is_none());
        assert_eq!(outstanding.in_flight(), 1);
        thread::scope(|scope| {
            scope.spawn(|| door.open(3));
            let ended = outstanding.wait_until(Instant::now() + Duration::from_secs(60));
            assert_eq!(ended.unwrap().0, 3);
        });
    }

    #[test]
    fn a_wait_for_an_answer_that_never_comes_can_be_stopped() {
        let mut outstanding = Outstanding::on_this_thread();
        assert!(outstanding.push(Instant::now(), Door::default()).is_none());
        let interrupt = Interrupt::default();
        thread::scope(|scope| {
            scope.spawn(|| interrupt.raise());
            assert_eq!(outstanding.wait_any(&interrupt).unwrap_err(), Interrupted);
        });
    }
}
