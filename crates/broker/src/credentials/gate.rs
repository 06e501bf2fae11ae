//! A thread that checks logins, one after the other: a hash costs tens of milliseconds and 19 MiB,
//! which no shard has. So a flood of logins is answered as fast as one thread can, whoever sends it,
//! and takes no more memory than one hash, which is kept for the next one, and a short queue.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use super::file::Settled;
use super::hash::Hash;
use crate::root::ROOT_NAME;

/// Logins that wait; more are refused for now.
const WAITING_MAX: usize = 64;

/// The way to the thread, which ends when this is dropped.
pub(crate) struct Gate {
    waiting: SyncSender<Attempt>,
}

struct Attempt {
    is_root: bool,
    password: Box<[u8]>,
    answer: oneshot::Sender<bool>,
}

/// Too many logins wait; the client may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy;

impl Gate {
    /// Starts the thread.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn start(settled: Settled) -> io::Result<Gate> {
        let (waiting, attempts) = sync_channel(WAITING_MAX);
        let mut hash = settled.hash;
        let thread = thread::Builder::new().name("broker-logins".to_owned());
        thread.spawn(move || check(&mut hash, &attempts))?;
        Ok(Gate { waiting })
    }

    /// Whether a login has it right. Takes as long for a user that there is not as for one with a
    /// wrong password: both are hashed.
    ///
    /// # Errors
    /// See [`Busy`].
    pub(crate) async fn admits(&self, user: &str, password: &[u8]) -> Result<bool, Busy> {
        let (answer, answered) = oneshot::channel();
        let is_root = user == ROOT_NAME;
        match self.waiting.try_send(Attempt { is_root, password: password.into(), answer }) {
            Ok(()) => answered.await.map_err(|_| Busy),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Err(Busy),
        }
    }
}

fn check(hash: &mut Hash, attempts: &Receiver<Attempt>) {
    for Attempt { is_root, password, answer } in attempts {
        // Who has gone is not worth the time.
        if !answer.is_closed() {
            let is_right = hash.is_of(&password);
            let _ = answer.send(is_right & is_root);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;
    use crate::root::RootPassword;

    fn gate() -> Gate {
        let dir = tempfile::tempdir().unwrap();
        let password = RootPassword::new("secret").unwrap();
        Gate::start(super::super::settle(dir.path(), Some(&password)).unwrap()).unwrap()
    }

    #[test]
    fn only_the_right_name_with_the_right_password_is_admitted() {
        let gate = gate();
        let admits = |user, password: &[u8]| block_on(gate.admits(user, password)).unwrap();
        assert!(admits("iggy", b"secret"));
        for wrong in [&b""[..], b"secre", b"secreT", b"secrets", b"secretsecret"] {
            assert!(!admits("iggy", wrong), "{wrong:?}");
        }
        assert!(!admits("root", b"secret") && !admits("", b"secret"));
    }

    #[test]
    fn a_flood_waits_in_a_short_queue_or_is_refused() {
        let gate = gate();
        let mut all: Vec<_> =
            (0..4 * WAITING_MAX).map(|_| Box::pin(gate.admits("iggy", b"wrong"))).collect();
        let refused = |attempt: &mut _| block_on(poll_once(attempt)) == Some(Err(Busy));
        all.retain_mut(|attempt| !refused(attempt));
        assert!((WAITING_MAX..=WAITING_MAX + 8).contains(&all.len()), "{} wait", all.len());
        // Those that are given up cost nothing more.
        drop(all);
        while block_on(gate.admits("iggy", b"secret")) != Ok(true) {
            std::thread::yield_now();
        }
    }
}
