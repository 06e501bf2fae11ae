//! A broker as its owner holds it: started, asked where it listens, stopped.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use corelog::error::{CloseError, OpenError, RunError};
use futures_lite::future::block_on;
use rustix::net::getsockname;
use rustix::process::{Resource, getrlimit};

use crate::clients::Clients;
use crate::listener;
use crate::notes::Notes;
use crate::root::RootPassword;
use crate::serve::Here;
use crate::shared::Shared;
use crate::sockets::Sockets;
use corelog::{Engine, ShardContext};

/// What a broker is started with.
#[derive(Debug, Clone)]
pub struct Config {
    /// The engine's data directory.
    pub data: PathBuf,
    /// Where clients connect, over TCP. Port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// The root user's password.
    pub password: RootPassword,
    /// Shards of the engine; `None` for one a CPU.
    pub shards: Option<usize>,
}

/// A broker that runs. Dropping it stops it, without a word.
#[must_use = "dropping the broker stops it"]
pub struct Broker {
    engine: Engine,
    listen: SocketAddr,
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
        /// Why.
        error: io::Error,
    },
    /// A shard did not take its listener.
    Shard(RunError),
    /// There is no thread that writes notes to standard error.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Engine(error) => error.fmt(f),
            StartError::Listen { address, error } => {
                write!(f, "cannot listen on {address}: {error}; choose another with --listen")
            }
            StartError::Shard(error) => error.fmt(f),
            StartError::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Engine(error) => Some(error),
            StartError::Listen { error, .. } => Some(error),
            StartError::Shard(error) => Some(error),
            StartError::Thread(error) => Some(error),
        }
    }
}

impl Broker {
    /// Opens the engine and listens on every shard. Clients can connect when this returns.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(config: Config) -> Result<Broker, StartError> {
        let refused = |error| StartError::Listen { address: config.listen, error };
        // Until all shards listen.
        let reserved = reserve(config.listen).map_err(refused)?;
        let listen = reserved.address;
        let notes = Notes::start(io::stderr()).map_err(StartError::Thread)?;
        let builder = Engine::builder(&config.data);
        let builder = config.shards.map_or(builder.clone(), |shards| builder.shards(shards));
        let engine = builder.open().map_err(StartError::Engine)?;
        let shared = Arc::new(Shared {
            listen,
            data: config.data,
            password: config.password,
            clients: Arc::new(Clients::default()),
            clients_max: clients_max(),
            began: SystemTime::now(),
            notes,
        });
        let broker = Broker { engine, listen };
        for shard in 0..broker.engine.shards() {
            broker.listen_on(shard, &shared)?;
        }
        drop(reserved);
        Ok(broker)
    }

    /// Where clients connect.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Ends all connections, makes everything durable and closes the engine.
    ///
    /// # Errors
    /// See [`CloseError`].
    pub fn stop(self) -> Result<(), CloseError> {
        self.engine.close_blocking()
    }

    fn listen_on(&self, shard: usize, shared: &Arc<Shared>) -> Result<(), StartError> {
        let (client, shared, address) = (self.engine.client(), Arc::clone(shared), self.listen);
        let started = self.engine.run_on_shard(shard, move |shard: ShardContext| async move {
            let (catalog, groups) = (client.catalog(), client.groups());
            let sockets = Sockets::start(&shard)?;
            let here = Rc::new(Here { shard, client, catalog, groups, sockets, shared });
            if here.shard.index() == 0 {
                listener::look_after_members(&here);
            }
            listener::start(&here, address)
        });
        let started = block_on(started).map_err(StartError::Shard)?;
        started.map_err(|error| StartError::Listen { address, error })
    }
}

/// Connections that there may be: half of what files the process may open. The other half is the
/// engine's, whose appends would fail without.
fn clients_max() -> usize {
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
