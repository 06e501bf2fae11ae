//! Work on many files at once, with results in the order of the files.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::failure::Failure;

/// Results that may wait for an earlier one, for each thread.
const WAITING_PER_JOB: usize = 8;
/// A walk is no deep recursion.
const STACK: usize = 1 << 20;

struct State<R> {
    /// The first item that nobody works on.
    next: usize,
    /// The first item whose result was not handed over.
    handed: usize,
    done: BTreeMap<usize, R>,
    /// Nothing more is begun: it failed, or a thread panicked.
    over: bool,
}

struct Queue<R> {
    state: Mutex<State<R>>,
    changed: Condvar,
}

impl<R> Queue<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<R>>) -> MutexGuard<'a, State<R>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the others where a thread ends in a panic.
struct Leaving<'a, R>(&'a Queue<R>);

impl<R> Drop for Leaving<'_, R> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        // What it was at will never come.
        state.over |= thread::panicking();
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Runs `work` on each item, on `jobs` threads at once, and hands the results to `each` on this
/// thread, in the order of the items. Items are begun in order, and few results wait for one that
/// takes longer. The first error of `each` ends it: what is being worked on is finished, no more.
pub(crate) fn in_order<T: Sync, R: Send>(
    jobs: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut each: impl FnMut(R) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let jobs = jobs.clamp(1, items.len().max(1));
    if jobs == 1 {
        return items.iter().try_for_each(|item| each(work(item)));
    }
    let state = State { next: 0, handed: 0, done: BTreeMap::new(), over: false };
    let queue = Queue { state: Mutex::new(state), changed: Condvar::new() };
    thread::scope(|scope| {
        for number in 0..jobs {
            let part = || {
                let _leaving = Leaving(&queue);
                worker(&queue, items, jobs * WAITING_PER_JOB, &work);
            };
            let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, part);
            // The first has to be there; without the others it only takes longer.
            if thread.is_err() && number == 0 {
                return items.iter().try_for_each(|item| each(work(item)));
            }
        }
        let result = hand_over(&queue, items.len(), &mut each);
        queue.lock().over = true;
        queue.changed.notify_all();
        result
    })
}

fn worker<T, R>(queue: &Queue<R>, items: &[T], waiting: usize, work: impl Fn(&T) -> R) {
    let mut state = queue.lock();
    while !state.over && state.next < items.len() {
        if state.next >= state.handed + waiting {
            state = queue.wait(state);
            continue;
        }
        let at = state.next;
        state.next += 1;
        drop(state);
        let result = work(&items[at]);
        state = queue.lock();
        state.done.insert(at, result);
        queue.changed.notify_all();
    }
}

fn hand_over<R>(
    queue: &Queue<R>,
    count: usize,
    each: &mut impl FnMut(R) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for at in 0..count {
        let mut state = queue.lock();
        let result = loop {
            if let Some(result) = state.done.remove(&at) {
                break result;
            }
            // A thread that panicked owes its result for ever; the scope hands its panic on.
            if state.over {
                return Ok(());
            }
            state = queue.wait(state);
        };
        state.handed = at + 1;
        drop(state);
        queue.changed.notify_all();
        each(result)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_come_in_order_whoever_is_done_first() {
        let items: Vec<usize> = (0..500).collect();
        for jobs in [1, 2, 7, 1000] {
            let mut seen = Vec::new();
            let slow = |item: &usize| {
                if item.is_multiple_of(11) {
                    thread::yield_now();
                }
                item * 2
            };
            let all = in_order(jobs, &items, slow, |result| {
                seen.push(result);
                Ok(())
            });
            assert!(all.is_ok());
            assert!(seen.iter().copied().eq((0..500).map(|item| item * 2)), "{jobs} jobs");
        }
        let none = in_order(4, &[] as &[u8], |item| *item, |_| panic!("there is nothing"));
        assert!(none.is_ok());
    }

    #[test]
    fn an_error_ends_it_soon() {
        let items: Vec<usize> = (0..10_000).collect();
        let begun = AtomicUsize::new(0);
        let work = |item: &usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            *item
        };
        let result = in_order(4, &items, work, |item| match item {
            10 => Err(Failure::not_ours(Path::new("x"), "enough")),
            _ => Ok(()),
        });
        assert!(result.is_err());
        assert!(begun.load(Ordering::Relaxed) <= 11 + 4 * WAITING_PER_JOB + 4);
    }

    #[test]
    fn a_panic_is_handed_on_and_nobody_waits_for_it() {
        let items: Vec<usize> = (0..100).collect();
        let panicked = std::panic::catch_unwind(|| {
            let work = |item: &usize| assert!(*item != 20, "this one");
            in_order(3, &items, work, |()| Ok(()))
        });
        assert!(panicked.is_err());
    }
}
