//! Tasks with something around them, in the place of the task alone.
//!
//! An `async` block that is given a future and awaits it has two places for it: where it was
//! captured, and where it is awaited. Each such wrapper doubles the task, and what a task of this
//! engine passes through on its way to an executor made one of 15 KiB one of 150, which was moved
//! from frame to frame and allocated for every write. These two have one place each.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

pin_project! {
    /// See [`then`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Then<F, G> {
        #[pin]
        task: F,
        then: Option<G>,
    }
}

/// Runs `task`, and calls `then` with what it ends with. Where the task panics, `then` is dropped by
/// the unwinding, which its drop may ask for; where the task is dropped, after it.
pub fn then<F: Future, G: FnOnce(F::Output)>(task: F, then: G) -> Then<F, G> {
    Then { task, then: Some(then) }
}

impl<F: Future, G: FnOnce(F::Output)> Future for Then<F, G> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        // Held here meanwhile: a panic of the task drops it as it unwinds.
        let then = this.then.take().expect("polled after it was ready");
        match this.task.poll(cx) {
            Poll::Ready(ended) => then(ended),
            Poll::Pending => {
                *this.then = Some(then);
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}

/// What a panic left: a text in most cases.
pub type Panic = Box<dyn Any + Send>;

pin_project! {
    /// See [`caught`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Caught<F, M> {
        #[pin]
        task: Option<F>,
        message: M,
    }
}

/// Runs `task` to its end or to its panic; `message` makes the error of that. What the task owns is
/// dropped before this ends, and a panic of that is an error as well.
///
/// Unwind safety is the caller's: nobody may go on with what the task left half done.
pub fn caught<F: Future, E, M: Fn(Panic) -> E>(task: F, message: M) -> Caught<F, M> {
    Caught { task: Some(task), message }
}

impl<F: Future, E, M: Fn(Panic) -> E> Caught<F, M> {
    /// Ends the task here and now.
    ///
    /// # Errors
    ///
    /// When the drop of what it owns panicked.
    pub fn give_up(self: Pin<&mut Self>) -> Result<(), E> {
        let mut this = self.project();
        catch_unwind(AssertUnwindSafe(|| this.task.set(None))).map_err(this.message)
    }
}

impl<F: Future, E, M: Fn(Panic) -> E> Future for Caught<F, M> {
    type Output = Result<F::Output, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_mut().project();
        let task = this.task.as_pin_mut().expect("polled after it was ready");
        let ended = match catch_unwind(AssertUnwindSafe(|| task.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(ended)) => Ok(ended),
            Err(panic) => Err((this.message)(panic)),
        };
        Poll::Ready(match self.give_up() {
            Ok(()) => ended,
            // Of two panics the first one is told.
            Err(dropped) => Err(ended.err().unwrap_or(dropped)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, poll_fn};
    use std::mem::size_of_val;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::Waker;

    use super::*;

    fn turn<F: Future>(task: Pin<&mut F>) -> Poll<F::Output> {
        task.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn text(panic: Panic) -> String {
        (*panic.downcast_ref::<&str>().expect("a text")).to_owned()
    }

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("from drop");
        }
    }

    #[test]
    fn a_wrapper_has_one_place_for_the_task() {
        let big = || async {
            let buf = [0_u8; 10_000];
            pending::<()>().await;
            let _used = buf.len();
        };
        let alone = size_of_val(&big());
        assert!(alone >= 10_000);
        let wrapped = then(caught(then(big(), |()| ()), text), |_| ());
        assert!(size_of_val(&wrapped) <= alone + 64, "{} of {alone}", size_of_val(&wrapped));
    }

    #[test]
    fn what_comes_then_is_told_the_end() {
        let told = Rc::new(Cell::new(0));
        let tell = Rc::clone(&told);
        assert_eq!(turn(pin!(then(async { 7 }, move |end| tell.set(end)))), Poll::Ready(()));
        assert_eq!(told.get(), 7);
    }

    #[test]
    fn what_comes_then_is_dropped_where_there_is_no_end() {
        let held = Rc::new(());
        let hold = Rc::clone(&held);
        let task = then(pending::<()>(), move |()| drop(hold));
        assert_eq!(Rc::strong_count(&held), 2);
        drop(task);
        assert_eq!(Rc::strong_count(&held), 1);
    }

    #[test]
    fn what_comes_then_knows_a_panic() {
        struct Asks(Rc<Cell<bool>>);
        impl Drop for Asks {
            fn drop(&mut self) {
                self.0.set(std::thread::panicking());
            }
        }
        let unwound = Rc::new(Cell::new(false));
        let asks = Asks(Rc::clone(&unwound));
        let mut task = pin!(caught(then(async { panic!("here") }, move |(): ()| drop(asks)), text));
        assert_eq!(turn(task.as_mut()), Poll::Ready(Err("here".to_owned())));
        assert!(unwound.get());
    }

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(turn(pin!(caught(async { 7 }, text))), Poll::Ready(Ok(7)));
        let panics = caught(async { panic!("in the task") }, text);
        let ended: Poll<Result<(), String>> = turn(pin!(panics));
        assert_eq!(ended, Poll::Ready(Err("in the task".to_owned())));
    }

    #[test]
    fn a_panic_in_a_destructor_is_caught_too() {
        // The guard is captured, so it is dropped with the future, not while it is polled.
        let holds = |guard: PanicsOnDrop| {
            poll_fn(move |_| {
                let _captured = &guard;
                Poll::Ready(())
            })
        };
        let ended = turn(pin!(caught(holds(PanicsOnDrop), text)));
        assert_eq!(ended, Poll::Ready(Err("from drop".to_owned())));
        let mut given_up = pin!(caught(holds(PanicsOnDrop), text));
        assert_eq!(given_up.as_mut().give_up(), Err("from drop".to_owned()));
    }

    #[test]
    fn the_task_is_dropped_at_its_end_and_not_with_what_is_around_it() {
        let held = Rc::new(());
        let hold = Rc::clone(&held);
        let mut task = pin!(caught(
            poll_fn(move |_| {
                let _captured = &hold;
                Poll::Ready(())
            }),
            text
        ));
        assert_eq!(turn(task.as_mut()), Poll::Ready(Ok(())));
        assert_eq!(Rc::strong_count(&held), 1);
    }
}
