//! What all shards of a broker share.

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::answer::Stats;
use crate::clients::Clients;
use crate::process;
use crate::root::RootPassword;

pub(crate) struct Shared {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) password: RootPassword,
    pub(crate) clients: Arc<Clients>,
    pub(crate) began: SystemTime,
}

impl Shared {
    /// Tells the operator something, on standard error.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        // There is nobody to tell that nobody can be told.
        let _ = writeln!(std::io::stderr().lock(), "corelog-broker: {what}");
    }

    /// What GET_STATS tells of the process.
    pub(crate) fn process(&self) -> Stats {
        process::stats(&self.data, self.began)
    }
}
