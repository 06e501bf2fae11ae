//! The engine as its owner holds it: opened, asked for clients, closed.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use corelog_shard::{ClientLimits, CloseReport, ControlError, ShardThread, Shards, Unavailable};

use crate::builder::{EngineBuilder, OpenSummary};
use crate::client::Client;
use crate::context::ShardContext;
use crate::control::Control;
use crate::error::{CloseError, RunError};
use crate::guests::{Door, Refused};
use crate::lock::DirLock;
use crate::run::{self, Answer};
use crate::runtime::{ShardEnd, ShardThreads};

/// How long to wait before a full mailbox is asked again to take the request to close.
const BUSY_WAIT: Duration = Duration::from_millis(1);

/// An open engine: its shards run until it is closed.
///
/// Several engines may be open in a process, on a directory each. [`Engine::client`] gives the ways
/// in.
///
/// # Closing
/// [`Engine::close`] and [`Engine::close_blocking`] flush and close every partition and say how it
/// went. Dropping the engine does the same and tells nobody; dropped on a shard's own thread, which
/// would wait for itself, it closes in the background. Either way nothing is lost that was answered
/// as written, and clients that are left are answered `Closed`.
#[must_use = "dropping the engine closes it"]
pub struct Engine {
    /// `None` once closing has begun.
    open: Option<Open>,
    client_limits: ClientLimits,
    opened: OpenSummary,
}

/// What runs.
struct Open {
    control: Arc<Control>,
    runtime: ShardThreads,
    lock: DirLock,
}

impl Engine {
    /// An engine on the data directory `path`, to be configured and opened.
    pub fn builder(path: impl AsRef<Path>) -> EngineBuilder {
        EngineBuilder::new(path.as_ref())
    }

    pub(crate) fn new(
        control: Arc<Control>,
        runtime: ShardThreads,
        lock: DirLock,
        client_limits: ClientLimits,
        opened: OpenSummary,
    ) -> Engine {
        Engine { open: Some(Open { control, runtime, lock }), client_limits, opened }
    }

    /// What opening found.
    pub fn opened(&self) -> &OpenSummary {
        &self.opened
    }

    /// How many shards run.
    pub fn shards(&self) -> usize {
        self.open().control.doors.len()
    }

    /// A client with limits of its own; its clones share them.
    pub fn client(&self) -> Client {
        let control = &self.open().control;
        Client::new(control.shards.client(&self.client_limits), Arc::clone(control))
    }

    /// Runs `code` on shard `index`: it is called there, and the future it answers runs there to
    /// its end. The future that this returns answers what that one answered; dropping it gives up
    /// the answer and does not stop the code. The engine's close drops code that has not ended by
    /// then.
    ///
    /// ```
    /// # use corelog::{Ack, BatchBuilder, Engine, Message, PartitionId, TopicConfig};
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// let partition = PartitionId::new(0, 0, 0);
    /// let mut batch = BatchBuilder::new();
    /// batch.push(Message::new(b"from the shard itself"))?;
    /// let batch = batch.finish()?;
    /// let appended = engine
    ///     .run_on_shard(0, move |shard| async move {
    ///         shard.append(partition, batch, Ack::Written).await
    ///     })
    ///     .await??;
    /// println!("offset {}", appended.base_offset);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`RunError`]. A panic of the code ends the code and nothing else.
    pub fn run_on_shard<T, C, F>(
        &self,
        index: usize,
        code: C,
    ) -> impl Future<Output = Result<T, RunError>> + Send + use<T, C, F>
    where
        T: Send + 'static,
        C: FnOnce(ShardContext) -> F + Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (done, answer) = oneshot::channel();
        let doors = &self.open().control.doors;
        let entered = match doors.get(index) {
            None => Err(RunError::NoSuchShard { index, shards: doors.len() }),
            Some(door) => {
                let answer = Answer::new(done);
                let entered = door.enter_answering(run::job(code, &answer), &answer);
                entered.map_err(|refused| match refused {
                    Refused::Busy => RunError::Busy,
                    Refused::Closed => RunError::Closed,
                })
            }
        };
        async move {
            entered?;
            answer.await.unwrap_or(Err(RunError::Closed))
        }
    }

    /// Stops taking requests, serves those that are on their way, makes everything durable, closes
    /// every partition and ends the shards. Starts at the call; dropping the future does not stop
    /// it.
    ///
    /// # Errors
    /// See [`CloseError`]: the engine is closed all the same.
    pub fn close(mut self) -> impl Future<Output = Result<(), CloseError>> + Send + use<> {
        let begun = self.close_in_background();
        async move {
            match begun {
                Err(error) => Err(error),
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(closer_died())),
            }
        }
    }

    /// [`Engine::close`], waiting on this thread.
    ///
    /// # Errors
    /// As there. On a shard's own thread the answer is `OnShard` at once, and the engine closes in
    /// the background.
    pub fn close_blocking(mut self) -> Result<(), CloseError> {
        if ShardThread::is_current() {
            self.close_in_background()?;
            return Err(CloseError::OnShard);
        }
        self.open.take().map_or(Ok(()), close)
    }

    fn open(&self) -> &Open {
        self.open.as_ref().expect("only closing takes it, and closing consumes the engine")
    }

    /// Closes on a thread of its own. On a shard's thread the answer may never be awaited: the
    /// shard that awaits it has to end first.
    fn close_in_background(
        &mut self,
    ) -> Result<oneshot::Receiver<Result<(), CloseError>>, CloseError> {
        let (done, answer) = oneshot::channel();
        let Some(open) = self.open.take() else { return Ok(answer) };
        let spawned = thread::Builder::new()
            .name("corelog-close".to_owned())
            .spawn(move || drop(done.send(close(open))));
        spawned.map_err(CloseError::Thread)?;
        if ShardThread::is_current() { Err(CloseError::OnShard) } else { Ok(answer) }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if ShardThread::is_current() {
            let _ = self.close_in_background();
        } else if let Some(open) = self.open.take() {
            let _ = close(open);
        }
    }
}

fn closer_died() -> CloseError {
    CloseError::Thread(io::Error::other("the closing thread ended by a bug"))
}

/// The end, in order: no new topics; the shards serve what they have and close their partitions;
/// their threads leave; only then the clock goes back to the present and the lock is let go.
fn close(open: Open) -> Result<(), CloseError> {
    let Open { control, runtime, lock } = open;
    let (began, events) = (Instant::now(), control.events.clone());
    control.catalog.close();
    control.works.close();
    let reports = close_shards(&control.shards);
    // A shard whose thread died has not closed its door.
    control.doors.iter().for_each(Door::close);
    let ends = runtime.join();

    let mut partitions = Vec::new();
    let mut shards = Vec::new();
    for (shard, (report, end)) in reports.into_iter().zip(ends).enumerate() {
        match report {
            Ok(report) => partitions.extend(report.failed),
            Err(error) => shards.push((shard, error.to_string())),
        }
        match end {
            ShardEnd::Clean | ShardEnd::LeasesOut(_) => {}
            ShardEnd::MainPanicked(why) | ShardEnd::ExecutorLost(why) => shards.push((shard, why)),
        }
    }
    // Where something may be lost, the record stays ahead of every stamp.
    let in_order = partitions.is_empty() && shards.is_empty();
    let clock = match in_order {
        true => control.clock.close().err(),
        false => {
            control.clock.stop();
            None
        }
    };
    drop(lock);
    let result = match (in_order, &clock) {
        (true, None) => Ok(()),
        _ => Err(CloseError::Incomplete { partitions, shards, clock }),
    };
    events.engine_closed(&result, began.elapsed());
    result
}

/// Asks all shards to close, then waits for all.
fn close_shards(shards: &Shards) -> Vec<Result<CloseReport, ControlError>> {
    let ask = |shard| loop {
        let call = shards.close_all(shard);
        match call.refusal() {
            Some(ControlError::Unavailable(Unavailable::Busy)) => thread::sleep(BUSY_WAIT),
            _ => return call,
        }
    };
    let calls: Vec<_> = (0..shards.count()).map(|shard| (shard, ask(shard))).collect();
    let wait = |(shard, mut call): (usize, corelog_shard::Call<CloseReport, ControlError>)| loop {
        match call.wait() {
            Err(ControlError::Unavailable(Unavailable::Busy)) => {
                thread::sleep(BUSY_WAIT);
                call = ask(shard);
            }
            other => return other,
        }
    };
    calls.into_iter().map(wait).collect()
}
