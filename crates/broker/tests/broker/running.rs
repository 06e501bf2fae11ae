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
}

impl Running {
    pub(crate) fn start() -> Running {
        // Files past the page cache want a real file system.
        Running::start_on(env!("CARGO_TARGET_TMPDIR").as_ref())
    }

    /// On a directory in `place`.
    pub(crate) fn start_on(place: &std::path::Path) -> Running {
        let directory = tempfile::tempdir_in(place).unwrap();
        let broker = Some(start(&directory));
        Running { broker, directory }
    }

    /// A client that has connected and not logged in.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.broker.as_ref().unwrap().listen())
    }

    /// A client that has logged in.
    pub(crate) fn log_in(&self) -> Client {
        let mut client = self.connect();
        client.log_in(PASSWORD).done();
        client
    }

    /// Stops the broker and starts another one on the same directory.
    pub(crate) fn restart(&mut self) {
        self.broker.take().unwrap().stop().unwrap();
        self.broker = Some(start(&self.directory));
    }
}

fn start(directory: &TempDir) -> Broker {
    let password = RootPassword::new(PASSWORD).unwrap();
    Broker::start(Config {
        data: directory.path().join("data"),
        listen: "127.0.0.1:0".parse().unwrap(),
        password,
        shards: Some(2),
    })
    .unwrap()
}
