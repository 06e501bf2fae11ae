//! The shard that runs on this thread, for those who come by between two of its tasks.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use crate::home::{Home, wake};

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

#[derive(Clone)]
struct Here {
    home: Arc<Home>,
    shard: Rc<dyn Glance>,
}

/// A shard that can be asked to look around.
pub(crate) trait Glance {
    /// Serves what has come in meanwhile, or sees that it is served soon. Cheap where nothing has.
    fn glance(&self);
}

/// Has the shard of this thread look whether something came in from other threads: requests, of
/// which it serves a run, and answers to its own tasks, which it wakes. To be called by the runtime
/// between any two tasks: a shard that is busy would see it only when the runtime turns to its I/O.
/// Without a shard on this thread it does nothing. A few nanoseconds where nothing has come.
pub fn glance() {
    // Cloned: a waker is foreign code.
    let shard = HERE.with_borrow(|here| here.as_ref().map(|here| Rc::clone(&here.shard)));
    if let Some(shard) = shard {
        shard.glance();
    }
}

/// While it lives, the shard is its thread's. The first one where there are several (in a
/// simulation); all of them are woken on that thread anyway.
pub(crate) struct Entered {
    home: Arc<Home>,
}

pub(crate) fn enter(home: &Arc<Home>, shard: Rc<dyn Glance>) -> Entered {
    let here = Here { home: Arc::clone(home), shard };
    HERE.with_borrow_mut(|now| {
        now.get_or_insert(here);
    });
    Entered { home: Arc::clone(home) }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let old = HERE.with_borrow_mut(|here| here.take_if(|here| is(here, &self.home)));
        drop(old);
        self.home.end();
    }
}

fn is(here: &Here, home: &Arc<Home>) -> bool {
    Arc::ptr_eq(&here.home, home)
}

/// Somebody who waits, and where.
pub(crate) struct Waiter {
    waker: Waker,
    /// `None` off the shards.
    home: Option<Arc<Home>>,
}

impl Waiter {
    /// One on this thread.
    pub(crate) fn new(waker: Waker) -> Waiter {
        let home = HERE.with_borrow(|here| here.as_ref().map(|here| Arc::clone(&here.home)));
        Waiter { waker, home }
    }

    /// From any thread.
    pub(crate) fn wake(self) {
        let Waiter { waker, home } = self;
        match home {
            Some(home) if !HERE.with_borrow(|here| here.as_ref().is_some_and(|h| is(h, &home))) => {
                home.send(waker);
            }
            _ => wake(waker),
        }
    }
}
