//! What becomes of the partition when one of its tasks panics, which is a bug of ours or of who is
//! answered: it is poisoned, nobody waits for the task for ever, and it can still be closed.

use std::rc::Rc;

use corelog_io::{IoError, IoOp, Platform};

use crate::appender::Appender;
use crate::partition::Inner;
use crate::{Answer, CloseError};

/// Poisons the partition when it is dropped by a panic.
pub(crate) struct Watch<P: Platform, A: Answer> {
    pub(crate) inner: Rc<Inner<P, A>>,
    stopped: fn(&mut Appender<P::Disk, A>),
}

impl<P: Platform, A: Answer> Watch<P, A> {
    /// `stopped` tells the appender that what this watches is not under way any more.
    pub(crate) fn new(inner: Rc<Inner<P, A>>, stopped: fn(&mut Appender<P::Disk, A>)) -> Self {
        Watch { inner, stopped }
    }

    /// It came to its end.
    pub(crate) fn ended(self) {}
}

impl<P: Platform, A: Answer> Drop for Watch<P, A> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        // A panic may have happened under a borrow; then the next call meets the same bug.
        let Ok(mut appender) = self.inner.appender.try_borrow_mut() else { return };
        (self.stopped)(&mut appender);
        drop(appender);
        let text = "a task of the partition panicked: please report it";
        let dir = &self.inner.place.dir;
        self.inner.poison(IoError::new(IoOp::Write, dir, std::io::Error::other(text)));
        self.inner.pump_apart();
    }
}

/// A close that is under way. Dropped by a panic it lets the files go, and whoever waits for the close
/// is not left waiting.
pub(crate) struct Closing<P: Platform, A: Answer> {
    inner: Rc<Inner<P, A>>,
}

impl<P: Platform, A: Answer> Closing<P, A> {
    pub(crate) fn new(inner: Rc<Inner<P, A>>) -> Self {
        Closing { inner }
    }

    pub(crate) fn partition(&self) -> &Rc<Inner<P, A>> {
        &self.inner
    }

    /// It came to this end.
    pub(crate) fn ended(self, result: Result<(), CloseError>) {
        let promise = self.inner.closing.borrow_mut().take();
        if let Some(promise) = promise {
            promise.give(result);
        }
    }
}

impl<P: Platform, A: Answer> Drop for Closing<P, A> {
    fn drop(&mut self) {
        let promise = self.inner.closing.borrow_mut().take();
        if promise.is_some() {
            let file = self.inner.file.borrow_mut().take();
            drop(file);
            self.inner.life.end();
        }
    }
}

/// Sees that what is due is given where an answer panics.
pub(crate) struct Giving<'a, P: Platform, A: Answer> {
    inner: &'a Rc<Inner<P, A>>,
}

impl<'a, P: Platform, A: Answer> Giving<'a, P, A> {
    pub(crate) fn new(inner: &'a Rc<Inner<P, A>>) -> Self {
        Giving { inner }
    }
}

impl<P: Platform, A: Answer> Drop for Giving<'_, P, A> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.inner.pump_apart();
        }
    }
}
