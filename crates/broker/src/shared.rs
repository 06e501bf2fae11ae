//! What all shards of a broker share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use crate::answer::Stats;
use crate::clients::Clients;
use crate::credentials::Gate;
use crate::limits::ClientsMay;
use crate::log::Events;
use crate::process;
use crate::scrape::Counters;

pub(crate) struct Shared {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) gate: Gate,
    pub(crate) clients: Arc<Clients>,
    pub(crate) may: ClientsMay,
    /// What the engine gives to a poll, bytes, or else one batch.
    pub(crate) poll_bytes: usize,
    pub(crate) began: SystemTime,
    pub(crate) events: Events,
    /// Of each shard.
    pub(crate) counters: Box<[Counters]>,
    is_stopping: AtomicBool,
}

impl Shared {
    /// Of a broker with `shards` shards that begins now.
    pub(crate) fn new(
        listen: SocketAddr,
        data: PathBuf,
        gate: Gate,
        may: ClientsMay,
        poll_bytes: usize,
        shards: usize,
    ) -> Shared {
        Shared {
            listen,
            data,
            gate,
            clients: Arc::default(),
            may,
            poll_bytes,
            began: SystemTime::now(),
            events: Events::default(),
            counters: (0..shards).map(|_| Counters::default()).collect(),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// True from when the broker begins to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(crate) fn stops(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// What GET_STATS tells of the process.
    pub(crate) fn process(&self) -> Stats {
        process::stats(&self.data, self.began)
    }
}
