//! A broker of a test's own: a directory, a port that the kernel chose.

use corelog_broker::{Broker, Config, RootPassword};
use tempfile::TempDir;

use crate::client::Client;

/// Its password.
pub(crate) const PASSWORD: &str = "iggy";

/// A broker that runs on a directory which goes with it.
pub(crate) struct Running {
    broker: Option<Broker>,
    directory: TempDir,
    change: Box<dyn Fn(&mut Config)>,
}

impl Running {
    pub(crate) fn start() -> Running {
        Running::start_with(|_| ())
    }

    /// With another configuration.
    pub(crate) fn start_with(change: impl Fn(&mut Config) + 'static) -> Running {
        // Files past the page cache want a real file system.
        Running::start_in(env!("CARGO_TARGET_TMPDIR").as_ref(), change)
    }

    /// On a directory in `place`.
    pub(crate) fn start_on(place: &std::path::Path) -> Running {
        Running::start_in(place, |_| ())
    }

    fn start_in(place: &std::path::Path, change: impl Fn(&mut Config) + 'static) -> Running {
        let directory = tempfile::tempdir_in(place).unwrap();
        let broker = Some(start(&directory, &change));
        Running { broker, directory, change: Box::new(change) }
    }

    pub(crate) fn broker(&self) -> &Broker {
        self.broker.as_ref().unwrap()
    }

    /// A client that has connected and not logged in.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.broker().listen())
    }

    /// A client that has logged in.
    pub(crate) fn log_in(&self) -> Client {
        let mut client = self.connect();
        client.log_in(PASSWORD).done();
        client
    }

    /// Where its files are.
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Begins to stop the broker, and does not wait for connections.
    pub(crate) fn drain(&mut self) {
        self.broker.as_mut().unwrap().drain(std::time::Duration::ZERO, || true);
    }

    /// Stops the broker and starts another one on the same directory.
    pub(crate) fn restart(&mut self) {
        self.broker.take().unwrap().stop().unwrap();
        self.broker = Some(start(&self.directory, &self.change));
    }
}

fn start(directory: &TempDir, change: &dyn Fn(&mut Config)) -> Broker {
    let mut config = Config::new(directory.path().join("data"));
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.password = Some(RootPassword::new(PASSWORD).unwrap());
    config.shards = Some(2);
    change(&mut config);
    Broker::start(config).unwrap()
}
