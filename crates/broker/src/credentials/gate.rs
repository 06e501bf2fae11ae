//! A thread that checks logins, one after the other: a hash costs tens of milliseconds and 19 MiB,
//! which no shard has. So a flood of logins is answered as fast as one thread can, whoever sends it,
//! and takes no more memory than one hash, which is kept for the next one, and a short queue. An
//! address from which too many have failed is not even looked at for a while.

use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::failures::Failures;
use super::file::Settled;
use super::hash::Hash;
use crate::root::ROOT_NAME;

/// Logins that wait; more are refused for now.
const WAITING_MAX: usize = 64;

/// The way to the thread, which ends when this is dropped.
pub(crate) struct Gate {
    waiting: SyncSender<Attempt>,
    /// Held for a look, or a note of a failure, of which the thread makes some tens in a second.
    failures: Mutex<Failures>,
}

struct Attempt {
    is_root: bool,
    password: Box<[u8]>,
    answer: oneshot::Sender<bool>,
}

/// Why nobody looked at a login; the client may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotHeard {
    /// Too many wait.
    Busy,
    /// Too many have failed from its address.
    Failures,
}

impl NotHeard {
    /// For the operator.
    pub(crate) const fn why(self) -> &'static str {
        match self {
            NotHeard::Busy => "too many logins at a time",
            NotHeard::Failures => "too many failed logins from its address (failed_logins)",
        }
    }
}

impl Gate {
    /// Starts the thread. From an address, `failed_logins` may fail in a minute.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn start(settled: Settled, failed_logins: u32) -> io::Result<Gate> {
        let (waiting, attempts) = sync_channel(WAITING_MAX);
        let mut hash = settled.hash;
        let thread = thread::Builder::new().name("broker-logins".to_owned());
        thread.spawn(move || check(&mut hash, &attempts))?;
        Ok(Gate { waiting, failures: Mutex::new(Failures::new(failed_logins)) })
    }

    /// Whether a login from an address has it right. Takes as long for a user that there is not as
    /// for one with a wrong password: both are hashed.
    ///
    /// # Errors
    /// See [`NotHeard`].
    pub(crate) async fn admits(
        &self,
        from: IpAddr,
        user: &str,
        password: &[u8],
    ) -> Result<bool, NotHeard> {
        if !self.failures().hears(from, Instant::now()) {
            return Err(NotHeard::Failures);
        }
        let (answer, answered) = oneshot::channel();
        let is_root = user == ROOT_NAME;
        let is_right =
            match self.waiting.try_send(Attempt { is_root, password: password.into(), answer }) {
                Ok(()) => answered.await.map_err(|_| NotHeard::Busy)?,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                    return Err(NotHeard::Busy);
                }
            };
        if !is_right {
            self.failures().add(from, Instant::now());
        }
        Ok(is_right)
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
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
        let settled = super::super::settle(dir.path(), Some(&password)).unwrap();
        Gate::start(settled, 8).unwrap()
    }

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn only_the_right_name_with_the_right_password_is_admitted() {
        let gate = gate();
        let admits = |user, password: &[u8]| block_on(gate.admits(HERE, user, password)).unwrap();
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
            (0..4 * WAITING_MAX).map(|_| Box::pin(gate.admits(HERE, "iggy", b"wrong"))).collect();
        let refused = |attempt: &mut _| block_on(poll_once(attempt)) == Some(Err(NotHeard::Busy));
        all.retain_mut(|attempt| !refused(attempt));
        assert!((WAITING_MAX..=WAITING_MAX + 8).contains(&all.len()), "{} wait", all.len());
        // Those that are given up cost nothing more.
        drop(all);
        while block_on(gate.admits(HERE, "iggy", b"secret")) != Ok(true) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_address_that_guesses_is_not_heard_and_others_are() {
        let gate = gate();
        let admits = |from, password: &[u8]| block_on(gate.admits(from, "iggy", password));
        for _ in 0..8 {
            assert_eq!(admits(HERE, b"guess"), Ok(false));
            assert_eq!(admits(THERE, b"secret"), Ok(true), "who has it right has failed nothing");
        }
        assert_eq!(admits(HERE, b"secret"), Err(NotHeard::Failures), "right or not, it is late");
        assert_eq!(admits(THERE, b"secret"), Ok(true));
    }
}
