//! Partitions come and go: opening, closing, and the end of the shard.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use corelog_io::{Clock, Platform};
use corelog_storage::{CloseError, LogConfig, OpenReport, Partition, Place};

use crate::partitions::Open;
use crate::records::Lend;
use crate::reply::Reply;
use crate::request::Opening;
use crate::shard::{BytesOf, State};
use crate::tasks::{Tasks, caught};
use crate::timing::ShardNotice;
use crate::{CloseReport, ControlError, FailureReason, PartitionFailure, PartitionId, Unavailable};

/// How long the end of a shard waits for requests that are under way before it begins to close.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// How a close went: the storage's answer, or the panic that ended it.
enum Closing {
    Done(Result<(), CloseError>),
    Panicked(PartitionFailure),
}

impl<P: Platform, L: Lend<BytesOf<P>>> State<P, L> {
    /// Opens as soon as one of the places for openings is free. From now on what the partition is
    /// asked waits for the end of it.
    pub(crate) fn open(self: &Rc<Self>, opening: Opening) {
        let begun = self.partitions.borrow_mut().begin_opening(opening.partition);
        if let Err(error) = begun {
            return opening.reply.send(Err(error));
        }
        if self.opening.get() >= self.seat.limits.openings.max(1) {
            self.openings.borrow_mut().push_back(opening);
            return;
        }
        self.opening.set(self.opening.get() + 1);
        let state = Rc::clone(self);
        self.spawn(async move {
            let mut next = Some(opening);
            while let Some(Opening { partition, place, config, reply }) = next {
                reply.send(state.open_one(partition, place, config).await);
                next = state.openings.borrow_mut().pop_front();
            }
            state.opening.set(state.opening.get() - 1);
        });
    }

    pub(crate) async fn open_all(
        self: &Rc<Self>,
        partitions: Vec<(PartitionId, Place, LogConfig)>,
    ) -> Vec<(PartitionId, Result<OpenReport, ControlError>)> {
        let count = partitions.len();
        let done = Rc::new(RefCell::new(Vec::with_capacity(count)));
        let (state, results) = (Rc::clone(self), Rc::clone(&done));
        self.side_by_side(partitions.into_iter().enumerate(), move |(number, opening)| {
            let (state, results) = (Rc::clone(&state), Rc::clone(&results));
            async move {
                let (id, place, config) = opening;
                let begun = state.partitions.borrow_mut().begin_opening(id);
                let result = match begun {
                    Ok(()) => state.open_one(id, place, config).await,
                    Err(error) => Err(error),
                };
                results.borrow_mut().push((number, (id, result)));
            }
        })
        .await;
        let mut done = done.take();
        done.sort_unstable_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, result)| result).collect()
    }

    /// Does `work` for each of `items`, `ShardLimits::openings` at a time, and ends when all is
    /// done.
    async fn side_by_side<T: 'static, F: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        items: impl Iterator<Item = T>,
        work: impl Fn(T) -> F + 'static,
    ) {
        let items: VecDeque<T> = items.collect();
        let (workers, group) =
            (self.seat.limits.openings.clamp(1, items.len().max(1)), Tasks::default());
        let (items, work) = (Rc::new(RefCell::new(items)), Rc::new(work));
        for _ in 0..workers {
            let (items, work, running) = (Rc::clone(&items), Rc::clone(&work), group.enter());
            self.spawn(async move {
                loop {
                    let next = items.borrow_mut().pop_front();
                    let Some(item) = next else { break };
                    work(item).await;
                }
                drop(running);
            });
        }
        group.idle().await;
    }

    /// Opens a partition whose id is reserved, then serves what waited for it.
    async fn open_one(
        self: &Rc<Self>,
        id: PartitionId,
        place: Place,
        config: LogConfig,
    ) -> Result<OpenReport, ControlError> {
        self.forget_retention(id);
        let shared = match self.watch.of_log(id) {
            Some(observer) => self.shared.observed_by(observer),
            None => self.shared.clone(),
        };
        let opened = match caught(Partition::open(shared, place, config)).await {
            Ok(opened) => opened.map_err(|error| FailureReason::Open(Arc::new(error))),
            Err(message) => Err(FailureReason::Panicked(message)),
        };
        self.opened(id, opened, false)
    }

    /// Puts a partition that was opened or recovered in its place, or the reason why not, and
    /// serves what waited for it.
    pub(crate) fn opened(
        self: &Rc<Self>,
        id: PartitionId,
        opened: Result<(Open<P>, OpenReport), FailureReason>,
        reopened: bool,
    ) -> Result<OpenReport, ControlError> {
        let (entry, result) = match opened {
            Ok((partition, report)) => (Ok(partition), Ok(report)),
            Err(reason) => (Err(reason.clone()), Err(reason)),
        };
        let waiting = self.partitions.borrow_mut().opened(id, entry);
        waiting.into_iter().for_each(|ask| self.ask(id, ask));
        match result {
            Ok(report) => {
                self.watch.notice(id, &ShardNotice::Opened { report: &report, reopened });
                Ok(report)
            }
            Err(reason) => {
                let failure = PartitionFailure { partition: id, reason };
                self.watch.notice(id, &ShardNotice::Failed(&failure));
                Err(Unavailable::PartitionFailed(failure).into())
            }
        }
    }

    /// Closes one partition.
    pub(crate) fn close(self: &Rc<Self>, id: PartitionId, reply: Reply<(), ControlError>) {
        let begun = self.partitions.borrow_mut().begin_closing(id);
        if begun.is_ok() {
            self.forget_retention(id);
        }
        let partition = match begun {
            Ok(Some(partition)) => partition,
            Ok(None) => return reply.send(Ok(())),
            Err(error) => return reply.send(Err(error)),
        };
        let state = Rc::clone(self);
        self.spawn(async move {
            reply.send(match state.close_one(id, partition).await {
                Closing::Done(result) => result.map_err(ControlError::Close),
                Closing::Panicked(failure) => Err(Unavailable::PartitionFailed(failure).into()),
            });
        });
    }

    async fn close_one(&self, id: PartitionId, partition: Open<P>) -> Closing {
        match caught(partition.close()).await {
            Ok(result) => {
                self.partitions.borrow_mut().closed(id);
                Closing::Done(result)
            }
            Err(message) => Closing::Panicked(self.fail(id, message)),
        }
    }

    /// The end: what came in before was served, now everything is closed. Who comes too late is
    /// answered by the drop of the shard.
    pub(crate) async fn end(self: &Rc<Self>) {
        // Openings, polls and flushes first: they came before. But one that the device never
        // answers must not keep the other partitions from their close.
        // Polls that wait for messages wait no longer.
        self.partitions.borrow().open().iter().for_each(|(_, partition)| partition.end_waits());
        self.idle_for(END_PATIENCE).await;
        let report = Rc::new(RefCell::new(CloseReport::default()));
        self.close_everything(&report).await;
        self.tasks.idle().await;
        // What was opened or recovered meanwhile.
        self.close_everything(&report).await;
        let mut report = report.take();
        report.failed.sort_unstable_by_key(|(id, _)| *id);
        report.out_of_service = self.partitions.borrow().failures();
        if let Some(reply) = self.take_end() {
            reply.send(Ok(report));
        }
    }

    /// Waits until no task runs, but no longer than `patience`.
    async fn idle_for(&self, patience: Duration) {
        let mut idle = pin!(self.tasks.idle());
        let mut sleep = pin!(self.platform().clock().sleep(patience));
        poll_fn(|cx| match idle.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => sleep.as_mut().poll(cx),
        })
        .await;
    }

    async fn close_everything(self: &Rc<Self>, report: &Rc<RefCell<CloseReport>>) {
        let (state, results) = (Rc::clone(self), Rc::clone(report));
        let open: Vec<_> = self.partitions.borrow().open().into_iter().map(|(id, _)| id).collect();
        self.side_by_side(open.into_iter(), move |id| {
            let (state, results) = (Rc::clone(&state), Rc::clone(&results));
            async move {
                let begun = state.partitions.borrow_mut().begin_closing(id);
                let Ok(Some(partition)) = begun else { return };
                match state.close_one(id, partition).await {
                    Closing::Done(Ok(())) => results.borrow_mut().closed += 1,
                    Closing::Done(Err(error)) => results.borrow_mut().failed.push((id, error)),
                    Closing::Panicked(_) => {}
                }
            }
        })
        .await;
    }
}
