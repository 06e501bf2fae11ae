//! The logs, each behind the same few calls. What is fair to each stands in its file.

mod commitlog;
mod corelog;
mod fjall;
mod okaywal;
mod open_wal;
mod raft_engine;
mod raw;
mod wal_db;
mod walrus;

use std::path::Path;

use ::corelog::machine::Runtime;
use clap::ValueEnum;

use crate::Fault;
use crate::work::{Checker, Class, Work};

/// A log that is open for appends.
pub(crate) trait Log: Send + Sync {
    /// Appends a batch; the answer is worth what the class says. `first` is the number of its first
    /// record among the producer's.
    fn append(&self, producer: u32, first: u64, records: &[&[u8]]) -> Result<(), Fault>;

    /// Makes all durable. False where the log has no call for it.
    fn sync(&self) -> Result<bool, Fault>;

    /// Ends it as its documentation says.
    fn close(self: Box<Self>) -> Result<(), Fault>;
}

/// Which log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Kind {
    Corelog,
    CorelogRing,
    /// Durable as one append asks for it, in a topic that is not made for that.
    CorelogAsked,
    RawDirect,
    RawBuffered,
    Commitlog,
    Fjall,
    Okaywal,
    OpenWal,
    RaftEngine,
    WalDb,
    Walrus,
}

impl Kind {
    /// With its version.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Corelog => "corelog",
            Kind::CorelogRing => "corelog on ring",
            Kind::CorelogAsked => "corelog on ring, a topic without enforce_fsync",
            Kind::RawDirect => "a file, O_DIRECT, allocated before",
            Kind::RawBuffered => "a file, pwrite (and fdatasync)",
            Kind::Commitlog => "commitlog 0.2.0",
            Kind::Fjall => "fjall 3.1.13 (an LSM, not a log)",
            Kind::Okaywal => "okaywal 0.3.1",
            Kind::OpenWal => "open-wal 0.2.1",
            Kind::RaftEngine => "raft-engine 0.4.2",
            Kind::WalDb => "wal-db 1.1.0",
            Kind::Walrus => "walrus-rust 0.2.0",
        }
    }

    /// Whether it makes the promise of this class, to so many producers.
    pub(crate) fn offers(self, class: Class) -> bool {
        match self {
            // Syncs no data, and is appended to by one at a time.
            Kind::Commitlog => class == Class::Written,
            // Have no answer without a sync.
            Kind::Okaywal => class.is_durable(),
            // The same as on ring where no answer is durable.
            Kind::CorelogAsked => class.is_durable(),
            // A batch always syncs; single entries of many producers do not share one.
            Kind::Walrus => class.is_durable(),
            // Appends are in memory only until the commit, which syncs; one producer.
            Kind::OpenWal => class == Class::Durable,
            _ => true,
        }
    }
}

/// Opens a new one in `dir`, which is empty.
pub(crate) fn open(
    kind: Kind,
    class: Class,
    work: Work,
    dir: &Path,
) -> Result<Box<dyn Log>, Fault> {
    match kind {
        Kind::Corelog => corelog::open(dir, class, Runtime::Glommio, class.is_durable()),
        Kind::CorelogRing => corelog::open(dir, class, Runtime::Ring, class.is_durable()),
        Kind::CorelogAsked => corelog::open(dir, class, Runtime::Ring, false),
        Kind::RawDirect => raw::open(dir, class, work, true),
        Kind::RawBuffered => raw::open(dir, class, work, false),
        Kind::Commitlog => commitlog::open(dir),
        Kind::Fjall => fjall::open(dir, class),
        Kind::Okaywal => okaywal::open(dir),
        Kind::OpenWal => open_wal::open(dir),
        Kind::RaftEngine => raft_engine::open(dir, class),
        Kind::WalDb => wal_db::open(dir, class),
        Kind::Walrus => walrus::open(),
    }
}

/// Opens it again and compares all that it gives: the payload bytes.
pub(crate) fn read(
    kind: Kind,
    class: Class,
    work: Work,
    dir: &Path,
    mut checker: Checker,
) -> Result<Option<u64>, Fault> {
    let mut sink = |record: &[u8]| checker.feed(record);
    match kind {
        Kind::Corelog | Kind::CorelogRing | Kind::CorelogAsked => corelog::read(dir, &mut sink)?,
        Kind::RawDirect => raw::read(dir, work, true, &mut sink)?,
        Kind::RawBuffered => raw::read(dir, work, false, &mut sink)?,
        Kind::Commitlog => commitlog::read(dir, &mut sink)?,
        Kind::Fjall => fjall::read(dir, &mut sink)?,
        Kind::Okaywal => okaywal::read(dir, &mut sink)?,
        Kind::OpenWal => open_wal::read(dir, &mut sink)?,
        Kind::RaftEngine => raft_engine::read(dir, class, work, &mut sink)?,
        Kind::WalDb => wal_db::read(dir, &mut sink)?,
        Kind::Walrus => walrus::read(&mut sink)?,
    }
    checker.end().map(Some)
}

/// Takes records in the order of the log.
type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Fault>;
