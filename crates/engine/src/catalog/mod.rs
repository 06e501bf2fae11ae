//! The catalog: which streams, topics and partitions there are, in `{data}/catalog.redb`.
//!
//! The catalog commits first: a partition exists when its row does, and its directory follows.
//! Every partition has an incarnation that is never used again; the directory's manifest names the
//! one it belongs to. [`Catalog`] is the way to the thread that does the file I/O; `store` holds
//! the tables, `record` their bytes, `key` their keys.

mod error;
mod key;
mod record;
mod store;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use corelog_io::{IoError, IoOp};
use corelog_shard::PartitionId;
use corelog_storage::LogConfig;

pub use error::CatalogError;
pub(crate) use store::{CreateFailure, Store};

/// Jobs that wait for the catalog's thread; more are answered `Busy`.
const JOBS_MAX: usize = 256;

/// A partition as the catalog knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: PartitionId,
    pub(crate) incarnation: u64,
    pub(crate) config: LogConfig,
}

/// What the catalog's thread is to do.
type Job = Box<dyn FnOnce(&Store) + Send>;

/// The way to the catalog's thread, which does one job after the other.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// `None` once closed.
    jobs: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Why a job was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    Busy,
    Closed,
}

impl Catalog {
    /// Opens the catalog at `path`, creating it where it is missing, and answers all that is in it.
    pub(crate) fn open(path: &Path) -> Result<(Catalog, Vec<Entry>), CatalogError> {
        let (opened, answer) = mpsc::channel();
        let (jobs, inbox) = mpsc::sync_channel::<Job>(JOBS_MAX);
        let file = path.to_owned();
        let thread = thread::Builder::new()
            .name("corelog-catalog".to_owned())
            .spawn(move || {
                let store = contained(|| {
                    let store = Store::open(&file, now_us())?;
                    let entries = store.entries()?;
                    Ok((store, entries))
                });
                let (store, entries) = match store {
                    Ok(Ok(opened)) => opened,
                    Ok(Err(error)) => return drop(opened.send(Err(error))),
                    // The store's own checks let some damage through, and panic over it later.
                    Err(why) => {
                        return drop(opened.send(Err(CatalogError::Damaged { path: file, why })));
                    }
                };
                let _ = opened.send(Ok(entries));
                serve(&store, &inbox);
            })
            .map_err(|source| IoError::new(IoOp::Open, path, source))?;
        let entries = answer.recv().expect("the thread answers before it ends")?;
        let (jobs, thread) = (Mutex::new(Some(jobs)), Mutex::new(Some(thread)));
        Ok((Catalog { jobs, thread }, entries))
    }

    /// Queues `job` behind all others. Never waits.
    pub(crate) fn run(&self, job: impl FnOnce(&Store) + Send + 'static) -> Result<(), NotTaken> {
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

impl Drop for Catalog {
    fn drop(&mut self) {
        self.close();
    }
}

fn serve(store: &Store, inbox: &Receiver<Job>) {
    for job in inbox {
        // Whoever waits for the job sees its answer's end dropped. A transaction that was open is
        // taken back by the same unwinding.
        let _ = contained(|| job(store));
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
mod tests;
