//! The catalog: which streams, topics and partitions there are, in `{data}/catalog.redb`.
//!
//! The catalog commits first: a partition exists when its row does, and its directory follows.
//! Every partition has an incarnation that is never used again; the directory's manifest names the
//! one it belongs to. [`CatalogKeeper`] is the way to the thread that does the file I/O.
//!
//! | file | what it is |
//! | --- | --- |
//! | `model`, `named` | all of it in memory; `look` reads it for embedders |
//! | `plan` | what a change comes to: `row`s, and lives that end and begin |
//! | `protocol` | what directories do then, and at an opening |
//! | `store`, `record`, `key` | the tables, the bytes of their rows, their keys |

mod error;
mod key;
mod look;
mod model;
mod named;
mod plan;
mod protocol;
mod record;
mod row;
mod store;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use corelog_io::{IoError, IoOp};
use corelog_shard::{Follow, PartitionId};
use corelog_storage::LogConfig;

pub use error::{CatalogError, CatalogItem, ChangeError};
pub(crate) use model::Model;
pub(crate) use plan::{Ended, Plan};
pub(crate) use protocol::{Step, after, opening};
use store::Store;

use crate::groups::{GroupLimits, Seats};
use crate::observe::Events;

/// Jobs that wait for the catalog's thread; more are answered `Busy`.
const JOBS_MAX: usize = 256;

/// A partition as the catalog knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: PartitionId,
    pub(crate) incarnation: u64,
    pub(crate) config: LogConfig,
    pub(crate) follow: Follow,
}

/// What the catalog's thread is to do.
type Job = Box<dyn FnOnce(&Desk) + Send>;

/// The way to the catalog's thread, which does one job after the other; and the catalog in memory,
/// for everybody to read.
#[derive(Debug)]
pub(crate) struct CatalogKeeper {
    model: Arc<RwLock<Model>>,
    /// `None` once closed.
    jobs: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the catalog's thread works with.
#[derive(Debug)]
pub(crate) struct Desk {
    store: Store,
    model: Arc<RwLock<Model>>,
}

/// Why a job was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    Busy,
    Closed,
}

impl Desk {
    fn open(path: &Path, seats: Arc<Seats>, events: Events) -> Result<Desk, CatalogError> {
        let store = Store::open(path, now_us(), events)?;
        let model = Model::load(store.rows()?, seats);
        let model = model.map_err(|why| CatalogError::Damaged { path: path.to_owned(), why })?;
        Ok(Desk { store, model: Arc::new(RwLock::new(model)) })
    }

    /// Makes the change that `plan` comes to: it is durable, and everybody sees it, when this
    /// returns. What has to happen to partitions is left to do.
    pub(crate) fn change<T>(
        &self,
        plan: impl FnOnce(&Model) -> Result<(T, Plan), ChangeError>,
    ) -> Result<(T, Plan), ChangeError> {
        // Nobody else changes the model, so what was planned stays true.
        let (answer, mut plan) = plan(&read(&self.model))?;
        self.store.commit(&plan.rows, || read(&self.model).rows())?;
        let mut model = self.model.write().unwrap_or_else(PoisonError::into_inner);
        for row in std::mem::take(&mut plan.rows) {
            model.apply(row).expect("the rows of a plan fit the model that it was made of");
        }
        drop(model);
        Ok((answer, plan))
    }

    pub(crate) fn model(&self) -> RwLockReadGuard<'_, Model> {
        read(&self.model)
    }
}

fn read(model: &RwLock<Model>) -> RwLockReadGuard<'_, Model> {
    model.read().unwrap_or_else(PoisonError::into_inner)
}

impl CatalogKeeper {
    /// Opens the catalog at `path`, creating it where it is missing. Its groups have no members.
    pub(crate) fn open(
        path: &Path,
        groups: GroupLimits,
        events: &Events,
    ) -> Result<CatalogKeeper, CatalogError> {
        let seats = Arc::new(Seats::new(groups));
        let (opened, answer) = mpsc::channel();
        let (jobs, inbox) = mpsc::sync_channel::<Job>(JOBS_MAX);
        let (file, events) = (path.to_owned(), events.clone());
        let thread = thread::Builder::new()
            .name("corelog-catalog".to_owned())
            .spawn(move || {
                let desk = match contained(|| Desk::open(&file, seats, events)) {
                    Ok(Ok(desk)) => desk,
                    Ok(Err(error)) => return drop(opened.send(Err(error))),
                    // The store's own checks let some damage through, and panic over it later.
                    Err(why) => {
                        return drop(opened.send(Err(CatalogError::Damaged { path: file, why })));
                    }
                };
                let _ = opened.send(Ok(Arc::clone(&desk.model)));
                serve(&desk, &inbox);
            })
            .map_err(|source| IoError::new(IoOp::Open, path, source))?;
        let model = answer.recv().expect("the thread answers before it ends")?;
        let (jobs, thread) = (Mutex::new(Some(jobs)), Mutex::new(Some(thread)));
        Ok(CatalogKeeper { model, jobs, thread })
    }

    /// What there is now. Held for a look, never across a wait.
    pub(crate) fn model(&self) -> RwLockReadGuard<'_, Model> {
        read(&self.model)
    }

    /// Queues `job` behind all others. Never waits.
    pub(crate) fn run(&self, job: impl FnOnce(&Desk) + Send + 'static) -> Result<(), NotTaken> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = jobs.as_ref().ok_or(NotTaken::Closed)?;
        jobs.try_send(Box::new(job)).map_err(|refused| match refused {
            TrySendError::Full(_) => NotTaken::Busy,
            TrySendError::Disconnected(_) => NotTaken::Closed,
        })
    }

    /// Takes no more jobs, does those that wait, and ends the thread.
    pub(crate) fn close(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for CatalogKeeper {
    fn drop(&mut self) {
        self.close();
    }
}

fn serve(desk: &Desk, inbox: &Receiver<Job>) {
    for job in inbox {
        // Whoever waits for the job sees its answer's end dropped. A transaction that was open is
        // taken back by the same unwinding.
        let _ = contained(|| job(desk));
    }
}

/// Runs `work`; the message of its panic is the error.
fn contained<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a bug".into())
    })
}

/// Microseconds since the Unix epoch.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod rotten;
#[cfg(test)]
mod tests;
