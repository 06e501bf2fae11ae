//! How an operation on the simulated disk begins, meets its faults, and is awaited.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::disk::SimDisk;
use super::executor::EventKey;
use super::fault::{Effect, FaultId};
use super::state::{DiskState, Ending, Op, Verdict, stale};
use crate::{IoError, IoOp};

/// What is asked of the disk.
pub(super) struct Request<'a> {
    pub(super) op: IoOp,
    pub(super) path: &'a Path,
    /// The other path of a rename.
    pub(super) to: Option<&'a Path>,
    pub(super) at: Option<u64>,
    pub(super) len: usize,
    pub(super) handle: Option<u64>,
}

impl<'a> Request<'a> {
    pub(super) fn on_path(op: IoOp, path: &'a Path) -> Self {
        Request { op, path, to: None, at: None, len: 0, handle: None }
    }
}

/// Where an answer waits for its future, or the future for its answer.
struct Slot<T> {
    answer: Cell<Option<io::Result<T>>>,
    waker: Cell<Option<Waker>>,
    panics: Cell<bool>,
}

impl<T> Slot<T> {
    fn new() -> Self {
        Slot { answer: Cell::new(None), waker: Cell::new(None), panics: Cell::new(false) }
    }
}

/// The future of an operation that was submitted. Dropping it does not stop the operation.
pub(super) struct Answer<T> {
    slot: Rc<Slot<T>>,
}

impl<T> Future for Answer<T> {
    type Output = io::Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        match self.slot.answer.take() {
            Some(_) if self.slot.panics.get() => panic!("as a fault was to bring about"),
            Some(answer) => Poll::Ready(answer),
            None => {
                self.slot.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

/// What the faults in force make of an operation.
struct Met {
    verdict: Verdict,
    stalled_by: Vec<FaultId>,
    delay_us: u64,
    panics: bool,
}

impl SimDisk {
    /// Submits an operation; `effect` runs when it ends.
    pub(super) fn submit<T: 'static>(
        &self,
        request: &Request<'_>,
        effect: impl FnOnce(&mut DiskState, Ending) -> io::Result<T> + 'static,
    ) -> Answer<T> {
        self.submit_with(request, |_, _| (), effect)
    }

    /// Submits an operation after `prepare` has put it in place under its id.
    pub(super) fn submit_with<T: 'static>(
        &self,
        request: &Request<'_>,
        prepare: impl FnOnce(&mut DiskState, u64),
        effect: impl FnOnce(&mut DiskState, Ending) -> io::Result<T> + 'static,
    ) -> Answer<T> {
        let slot = Rc::new(Slot::new());
        let answer = Answer { slot: Rc::clone(&slot) };
        let mut state = self.inner.state.borrow_mut();
        let state = &mut *state;
        if let Some(handle) = request.handle {
            let Some(handle) = state.handles.get_mut(&handle) else {
                slot.answer.set(Some(Err(stale())));
                return answer;
            };
            handle.in_flight += 1;
        }
        let id = state.new_id();
        let begun = state.tick();
        let dsync = request.handle.is_some_and(|h| state.handles[&h].dsync);
        let place = (request.at, request.len);
        let traced = state.trace.begin(request.op, request.path, request.to, place, dsync, begun);
        let Met { verdict, stalled_by, delay_us, panics } = self.meet_faults(state, request);
        slot.panics.set(panics);
        prepare(state, id);
        let finish = move |state: &mut DiskState, ending: Ending| {
            let result = effect(state, ending);
            let errno = result.as_ref().err().and_then(io::Error::raw_os_error);
            slot.answer.set(Some(result));
            (slot.waker.take(), errno)
        };
        let event = stalled_by.is_empty().then(|| self.schedule(id, delay_us));
        let what = match request.at {
            Some(at) => format!("{:?} of {} at {at}", request.op, request.path.display()),
            None => format!("{:?} of {}", request.op, request.path.display()),
        };
        let (kind, handle, finish) = (request.op, request.handle, Box::new(finish));
        let op = Op { kind, begun, verdict, handle, event, stalled_by, traced, finish, what };
        state.ops.insert(id, op);
        answer
    }

    fn meet_faults(&self, state: &mut DiskState, request: &Request<'_>) -> Met {
        let delay_us = state.draw_delay_us();
        let (verdict, stalled_by) = (Verdict::Run, Vec::new());
        let mut met = Met { verdict, stalled_by, delay_us, panics: false };
        for (fault, effect) in state.faults.meet(request) {
            match effect {
                Effect::Fail(errno) => met.verdict = Verdict::Fail(errno),
                Effect::LoseWrite => met.verdict = Verdict::LoseWrite,
                Effect::MisdirectWrite(by) => met.verdict = Verdict::MisdirectWrite(by),
                Effect::FlipRead => met.verdict = Verdict::FlipRead,
                Effect::Delay(by) => {
                    let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
                    met.delay_us = met.delay_us.saturating_add(by);
                }
                Effect::Stall => met.stalled_by.push(fault),
                Effect::Halt => self.inner.executor.halt(),
                Effect::Panic => met.panics = true,
            }
        }
        met
    }

    fn schedule(&self, id: u64, delay_us: u64) -> EventKey {
        let disk = self.clone();
        self.inner.executor.after(
            delay_us,
            Box::new(move || {
                let waker = disk.inner.state.borrow_mut().end(id, None);
                // Outside the borrow: a waker is somebody else's code.
                if let Some(waker) = waker {
                    waker.wake();
                }
            }),
        )
    }

    /// Submits an operation that happens whole or not at all, and awaits it.
    pub(super) async fn whole<T: 'static>(
        &self,
        request: Request<'_>,
        effect: impl FnOnce(&mut DiskState, Ending) -> io::Result<T> + 'static,
    ) -> Result<T, IoError> {
        let (op, path) = (request.op, request.path.to_path_buf());
        self.submit(&request, whole(effect)).await.map_err(|e| IoError::new(op, path, e))
    }

    pub(super) fn resume(&self, lifted: impl Fn(FaultId) -> bool) {
        let mut state = self.inner.state.borrow_mut();
        for (id, op) in &mut state.ops {
            op.stalled_by.retain(|by| !lifted(*by));
            if op.stalled_by.is_empty() && op.event.is_none() {
                op.event = Some(self.schedule(*id, 1));
            }
        }
    }
}

/// The effect of an operation that has no parts: on a fault nothing, at a power cut all or nothing.
pub(super) fn whole<T>(
    effect: impl FnOnce(&mut DiskState, Ending) -> io::Result<T>,
) -> impl FnOnce(&mut DiskState, Ending) -> io::Result<T> {
    move |state, ending| match ending.verdict {
        Verdict::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
        Verdict::Ended { landed, .. } => {
            if landed {
                // Nobody hears the answer.
                let _ = effect(state, ending);
            }
            Err(stale())
        }
        _ => effect(state, ending),
    }
}
