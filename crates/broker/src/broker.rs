//! A broker as its owner holds it: started, asked where it listens, stopped.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use corelog::error::{CloseError, OpenError, RunError, StartError as ShardsError, UringError};
use corelog::machine::{DirectIo, Runtime};
use futures_lite::future::block_on;
use rustix::net::getsockname;
use rustix::process::{Resource, getrlimit};

use crate::credentials::{self, Gate, PasswordFileError};
use crate::limits::ClientsMay;
use crate::listener;
use crate::root::RootPassword;
use crate::scrape::Exporter;
use crate::serve::Here;
use crate::shared::Shared;
use crate::sockets::Sockets;
use corelog::{Engine, EngineBuilder, Limits, ShardContext};

/// Between two looks whether all connections are over.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a broker is started with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The engine's data directory.
    pub data: PathBuf,
    /// Where clients connect, over TCP. Port 0 lets the kernel choose. Default 127.0.0.1:8090.
    pub listen: SocketAddr,
    /// The root user's password; `None` for the one that is stored, or for one that is made up where
    /// none is. Default `None`.
    pub password: Option<RootPassword>,
    /// Shards of the engine; `None` for one a CPU, the default.
    pub shards: Option<usize>,
    /// The CPUs that shards may run on, by number; `None` for all, the default.
    pub cpus: Option<Vec<usize>>,
    /// On a file system that refuses O_DIRECT. Default: the broker does not start.
    pub direct_io: DirectIo,
    /// What drives the shards. `None`, the default: [`Runtime::Ring`], which needs less CPU under a
    /// broker, or [`Runtime::Glommio`] where the kernel is too old for it. Another start may choose
    /// another one.
    pub runtime: Option<Runtime>,
    /// What the engine may use.
    pub engine: Limits,
    /// What clients may use.
    pub clients: ClientsMay,
    /// Where metrics are served, by HTTP; `None` for nowhere, the default.
    pub metrics: Option<SocketAddr>,
}

impl Config {
    /// The defaults, on a data directory.
    pub fn new(data: impl Into<PathBuf>) -> Config {
        Config {
            data: data.into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 8090)),
            password: None,
            shards: None,
            cpus: None,
            direct_io: DirectIo::default(),
            runtime: None,
            engine: Limits::default(),
            clients: ClientsMay::default(),
            metrics: None,
        }
    }
}

/// A broker that runs. Dropping it stops it, without a word.
#[must_use = "dropping the broker stops it"]
pub struct Broker {
    engine: Engine,
    shared: Arc<Shared>,
    exporter: Option<Exporter>,
    made: Option<RootPassword>,
    /// One for each shard, which stops to accept connections when it is sent.
    stops: Vec<oneshot::Sender<()>>,
}

/// Why a broker did not start. Nothing of it runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The engine did not open.
    Engine(OpenError),
    /// The address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// What it is for: the option that says it.
        option: &'static str,
        /// Why.
        error: io::Error,
    },
    /// A limit cannot be worked with.
    Limit {
        /// Its name in [`ClientsMay`].
        name: &'static str,
        /// What was asked for, and what is allowed.
        why: String,
    },
    /// The hash of the root user's password cannot be read or stored.
    Password(PasswordFileError),
    /// A shard did not take its listener.
    Shard(RunError),
    /// There is no thread for logins or for metrics.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Engine(error) => error.fmt(f),
            StartError::Listen { address, option, error } => {
                write!(f, "cannot listen on {address}: {error}; choose another with --{option}")
            }
            StartError::Limit { name, why } => write!(f, "{name}: {why}"),
            StartError::Password(error) => error.fmt(f),
            StartError::Shard(error) => error.fmt(f),
            StartError::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Engine(error) => Some(error),
            StartError::Listen { error, .. } | StartError::Thread(error) => Some(error),
            StartError::Limit { .. } => None,
            StartError::Password(error) => Some(error),
            StartError::Shard(error) => Some(error),
        }
    }
}

impl Broker {
    /// Opens the engine and listens on every shard. Clients can connect when this returns.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(config: Config) -> Result<Broker, StartError> {
        let mut may = config.clients;
        may.check().map_err(|(name, why)| StartError::Limit { name, why })?;
        may.connections = may.connections.min(half_of_the_files());
        let refused = |address, option| move |error| StartError::Listen { address, option, error };
        // Until all shards listen.
        let reserved = reserve(config.listen).map_err(refused(config.listen, "listen"))?;
        let bind = |address| TcpListener::bind(address).map_err(refused(address, "metrics"));
        let metrics = config.metrics.map(bind).transpose()?;
        let poll_bytes = config.engine.poll_bytes;
        let builder =
            Engine::builder(&config.data).limits(config.engine).direct_io(config.direct_io);
        let builder = config.shards.map_or(builder.clone(), |shards| builder.shards(shards));
        let builder = config.cpus.map_or(builder.clone(), |cpus| builder.cpus(cpus));
        let engine = open(&builder, config.runtime).map_err(StartError::Engine)?;
        let mut settled = credentials::settle(&config.data, config.password.as_ref())
            .map_err(StartError::Password)?;
        let (made, is_changed) = (settled.made.take(), settled.is_changed);
        let gate = Gate::start(settled, may.failed_logins).map_err(StartError::Thread)?;
        let shards = engine.shards();
        let shared = Shared::new(reserved.address, config.data, gate, may, poll_bytes, shards);
        let mut broker =
            Broker { engine, shared: Arc::new(shared), exporter: None, made, stops: Vec::new() };
        if is_changed {
            broker.shared.events.password_changed();
        }
        for shard in 0..shards {
            broker.listen_on(shard)?;
        }
        drop(reserved);
        if let Some(listener) = metrics {
            let (client, shared) = (broker.engine.client(), Arc::clone(&broker.shared));
            let exporter = Exporter::start(listener, client, shared).map_err(StartError::Thread)?;
            broker.exporter = Some(exporter);
        }
        broker.shared.events.broker_listening(broker.listen(), shards);
        Ok(broker)
    }

    /// Where clients connect.
    pub fn listen(&self) -> SocketAddr {
        self.shared.listen
    }

    /// Where metrics are served.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.exporter.as_ref().map(Exporter::address)
    }

    /// The password that was made up, as none was given and none was stored. Only its hash is kept:
    /// whoever does not show it now has to give another one.
    pub fn made_password(&self) -> Option<&RootPassword> {
        self.made.as_ref()
    }

    /// Stops to accept connections, lets each one that is there finish what it is doing, and waits
    /// until all are over, `grace` at most, or until `is_urgent` says that somebody cannot wait.
    /// Answers how many are left; [`Broker::stop`] ends those.
    pub fn drain(&mut self, grace: Duration, mut is_urgent: impl FnMut() -> bool) -> usize {
        self.shared.stops();
        let connections = || self.shared.clients.count();
        self.shared.events.broker_draining(connections());
        for stop in self.stops.drain(..) {
            // A shard that is gone accepts nothing.
            let _ = stop.send(());
        }
        let end = Instant::now() + grace;
        while connections() > 0 && Instant::now() < end && !is_urgent() {
            thread::sleep(LOOK_EVERY);
        }
        let left = connections();
        self.shared.events.broker_stopped(left);
        left
    }

    /// Ends all connections, makes everything durable and closes the engine.
    ///
    /// # Errors
    /// See [`CloseError`].
    pub fn stop(self) -> Result<(), CloseError> {
        let Broker { engine, exporter, .. } = self;
        drop(exporter);
        engine.close_blocking()
    }

    fn listen_on(&mut self, shard: usize) -> Result<(), StartError> {
        let (client, shared) = (self.engine.client(), Arc::clone(&self.shared));
        let (stop, stopped) = oneshot::channel();
        self.stops.push(stop);
        let address = shared.listen;
        let started = self.engine.run_on_shard(shard, move |shard: ShardContext| async move {
            let sockets = Sockets::start(&shard)?;
            let here = Here::new(shard, client, sockets, shared);
            if here.shard.index() == 0 {
                listener::look_after_members(&here);
            }
            listener::look_after_connections(&here);
            listener::stop_when(&here, stopped);
            listener::start(&here, address)
        });
        let started = block_on(started).map_err(StartError::Shard)?;
        started.map_err(|error| StartError::Listen { address, option: "listen", error })
    }
}

/// Opens the engine on `runtime`, or on what the kernel can drive.
fn open(builder: &EngineBuilder, runtime: Option<Runtime>) -> Result<Engine, OpenError> {
    let opened = builder.clone().runtime(runtime.unwrap_or(Runtime::Ring)).open();
    match opened {
        Err(error) if runtime.is_none() && is_too_new(&error) => {
            builder.clone().runtime(Runtime::Glommio).open()
        }
        opened => opened,
    }
}

/// True where the kernel has an io_uring, and not all that [`Runtime::Ring`] asks of it.
fn is_too_new(error: &OpenError) -> bool {
    matches!(error, OpenError::Start(ShardsError::Uring(UringError::Missing { .. })))
}

/// Connections that there may be at most. The other half of the files is the engine's, whose appends
/// would fail without.
fn half_of_the_files() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / 2).unwrap_or(usize::MAX)
}

/// An address that nobody else gets while this is kept.
struct Reserved {
    _socket: OwnedFd,
    address: SocketAddr,
}

/// Takes an address for listeners that share it, as those of the shards do.
fn reserve(address: SocketAddr) -> io::Result<Reserved> {
    // Sharing lets another process share it, too, without a word: a listener that does not is asked
    // first whether somebody is there.
    if address.port() != 0 {
        drop(TcpListener::bind(address)?);
    }
    let socket = listener::bound(address)?;
    let address = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok(Reserved { _socket: socket, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that refuses io_uring as a whole is told of, and so is one that lacks what was asked
    /// for by name.
    #[test]
    fn an_old_kernel_gets_the_runtime_that_it_can_drive() {
        let missing = |runtime| UringError::Missing { runtime, operations: vec!["POLL_ADD"] };
        let start = |error| OpenError::Start(ShardsError::Uring(error));
        assert!(is_too_new(&start(missing(Runtime::Ring))));
        assert!(!is_too_new(&start(UringError::Memlock { limit: 0 })));
        assert!(!is_too_new(&OpenError::Cancelled));
        let directory = tempfile::tempdir_in(".").unwrap();
        let builder = Engine::builder(directory.path()).shards(1).direct_io(DirectIo::Preferred);
        for (asked, got) in [
            (None, Runtime::Ring),
            (Some(Runtime::Glommio), Runtime::Glommio),
            (Some(Runtime::Ring), Runtime::Ring),
        ] {
            let engine = open(&builder, asked).unwrap();
            assert_eq!(engine.opened().runtime, got, "{asked:?}");
            engine.close_blocking().unwrap();
        }
    }
}
