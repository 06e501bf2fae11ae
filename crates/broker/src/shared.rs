//! What all shards of a broker share.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::answer::Stats;
use crate::clients::Clients;
use crate::notes::Notes;
use crate::process;
use crate::root::RootPassword;

pub(crate) struct Shared {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) password: RootPassword,
    pub(crate) clients: Arc<Clients>,
    /// Connections at most.
    pub(crate) clients_max: usize,
    pub(crate) began: SystemTime,
    pub(crate) notes: Notes,
}

impl Shared {
    /// Tells the operator something, on standard error. Never waits.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        self.notes.note(what);
    }

    /// What GET_STATS tells of the process.
    pub(crate) fn process(&self) -> Stats {
        process::stats(&self.data, self.began)
    }
}
