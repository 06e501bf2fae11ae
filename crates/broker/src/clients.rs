//! Who is connected, on all shards: a table that is looked at, and never waited for.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::answer::Connected;
use corelog::consumers::ClientId;

/// The connections, and the logins on them.
pub(crate) struct Clients {
    began: Instant,
    table: Mutex<Table>,
    /// Logins so far; the number of each is its session's.
    sessions: AtomicU64,
}

#[derive(Default)]
struct Table {
    connections: BTreeMap<u64, Entry>,
    /// The connection on which a client id has logged in last.
    latest: HashMap<ClientId, u64>,
    next: u64,
}

struct Entry {
    peer: SocketAddr,
    client: Option<ClientId>,
    pulse: Arc<Pulse>,
}

/// What every request of a connection looks at or writes, so outside of the lock.
#[derive(Default)]
struct Pulse {
    /// When it was heard of last: seconds since the table began.
    heard: AtomicU64,
    /// Silent for so long that its memberships have ended.
    is_stale: AtomicBool,
    /// Its client has logged in on another connection since.
    is_fenced: AtomicBool,
}

/// A connection's place in the table, given up when this is dropped.
pub(crate) struct Seat {
    clients: Arc<Clients>,
    number: u64,
    pulse: Arc<Pulse>,
}

/// Silence after which a member of a group counts as gone, seconds. Clients are heard of every five
/// seconds, whatever they do.
const SILENCE_MAX: u64 = 36;

impl Default for Clients {
    fn default() -> Self {
        let (table, sessions) = (Mutex::default(), AtomicU64::new(0));
        Clients { began: Instant::now(), table, sessions }
    }
}

impl Clients {
    /// Takes a connection in, where fewer than `max` are there.
    pub(crate) fn seat(self: &Arc<Self>, peer: SocketAddr, max: usize) -> Option<Seat> {
        let mut table = self.lock();
        if table.connections.len() >= max {
            return None;
        }
        let number = table.next;
        table.next += 1;
        let pulse = Arc::new(Pulse::default());
        pulse.heard.store(self.now(), Ordering::Relaxed);
        let entry = Entry { peer, client: None, pulse: Arc::clone(&pulse) };
        table.connections.insert(number, entry);
        Some(Seat { clients: Arc::clone(self), number, pulse })
    }

    /// Marks whoever has been silent for too long at `now` and is `bound` to something, and answers
    /// who that is.
    pub(crate) fn mark_stale(&self, now: u64, bound: impl Fn(ClientId) -> bool) -> Vec<ClientId> {
        let silent = |entry: &Entry| {
            let heard = entry.pulse.heard.load(Ordering::Relaxed);
            let client = entry.client.filter(|_| now.saturating_sub(heard) > SILENCE_MAX)?;
            Some((client, Arc::clone(&entry.pulse)))
        };
        let silent: Vec<_> = self.lock().connections.values().filter_map(silent).collect();
        let stale = silent.into_iter().filter(|(client, _)| bound(*client));
        let mark = |(client, pulse): (ClientId, Arc<Pulse>)| {
            pulse.is_stale.store(true, Ordering::Relaxed);
            client
        };
        stale.map(mark).collect()
    }

    /// Seconds since the table began.
    pub(crate) fn now(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// All that are connected, oldest first.
    pub(crate) fn all(&self) -> Vec<(Connected, Option<ClientId>)> {
        self.lock().connections.iter().map(|(number, entry)| entry.told(*number)).collect()
    }

    /// The connection with this id, as clients know them.
    pub(crate) fn find(&self, id: u32) -> Option<(Connected, Option<ClientId>)> {
        let table = self.lock();
        let mut all = table.connections.iter().map(|(number, entry)| entry.told(*number));
        all.find(|(connected, _)| connected.id == id)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().connections.len()
    }

    /// Held for a few look-ups at a time, never across an await.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn told(&self, number: u64) -> (Connected, Option<ClientId>) {
        // Clients know the low half of the number.
        let id = number as u32;
        (Connected { id, is_logged_in: self.client.is_some(), peer: self.peer }, self.client)
    }
}

impl Seat {
    /// The connection, as clients know it.
    pub(crate) fn id(&self) -> u32 {
        self.number as u32
    }

    /// Notes that the client is there. False where it was away for so long that it counts as gone.
    pub(crate) fn beat(&self) -> bool {
        self.pulse.heard.store(self.clients.now(), Ordering::Relaxed);
        // A look first: the exchange would take the line from other cores at every request.
        !self.pulse.is_stale.load(Ordering::Relaxed)
            || !self.pulse.is_stale.swap(false, Ordering::Relaxed)
    }

    /// Notes that `client` has logged in here, and answers the session's number. Another
    /// connection with the same client id is fenced from now on.
    pub(crate) fn log_in(&self, client: ClientId) -> u64 {
        let mut table = self.clients.lock();
        let before = table.latest.insert(client, self.number);
        if let Some(entry) = before.and_then(|number| table.connections.get(&number)) {
            entry.pulse.is_fenced.store(true, Ordering::Release);
        }
        self.pulse.is_fenced.store(false, Ordering::Release);
        if let Some(entry) = table.connections.get_mut(&self.number) {
            entry.client = Some(client);
        }
        self.clients.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// True where another connection has logged in with the client id of this one since. Asked at
    /// every request, so it takes no lock.
    pub(crate) fn is_fenced(&self) -> bool {
        self.pulse.is_fenced.load(Ordering::Acquire)
    }

    /// Notes that nobody is logged in here any more. True where the client is not logged in
    /// anywhere else either, so that its memberships end.
    pub(crate) fn log_out(&self) -> Option<ClientId> {
        let mut table = self.clients.lock();
        let client = table.connections.get_mut(&self.number)?.client.take()?;
        if table.latest.get(&client) != Some(&self.number) {
            return None;
        }
        table.latest.remove(&client);
        Some(client)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _ = self.log_out();
        self.clients.lock().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> SocketAddr {
        "127.0.0.1:4000".parse().unwrap()
    }

    fn seat(clients: &Arc<Clients>) -> Seat {
        clients.seat(peer(), 2).expect("there is room")
    }

    #[test]
    fn the_latest_login_of_a_client_fences_the_others() {
        let clients = Arc::new(Clients::default());
        let (one, other) = (seat(&clients), seat(&clients));
        let me = ClientId(7);
        assert_eq!(one.log_in(me), 1);
        assert!(!one.is_fenced());
        assert_eq!(other.log_in(me), 2);
        assert!(one.is_fenced() && !other.is_fenced());
        assert_eq!(one.log_out(), None, "the client is still there, elsewhere");
        assert_eq!(other.log_out(), Some(me));
        assert_eq!(other.log_out(), None, "once");
        assert!(one.is_fenced(), "also when the other one has gone");
        one.log_in(me);
        assert!(!one.is_fenced());
        one.log_in(me);
        assert!(!one.is_fenced(), "nobody fences itself");
    }

    #[test]
    fn a_silent_member_is_told_once_that_it_was_given_up() {
        let clients = Arc::new(Clients::default());
        let (member, other) = (seat(&clients), seat(&clients));
        member.log_in(ClientId(1));
        other.log_in(ClientId(2));
        let is_member = |client| client == ClientId(1);
        let now = clients.now();
        assert_eq!(clients.mark_stale(now + SILENCE_MAX, is_member), []);
        assert!(member.beat());
        assert_eq!(clients.mark_stale(now + SILENCE_MAX + 2, is_member), [ClientId(1)]);
        assert!(!member.beat() && member.beat());
        assert!(other.beat(), "who is in no group may be silent");
    }

    #[test]
    fn who_is_gone_is_not_told() {
        let clients = Arc::new(Clients::default());
        let (one, other) = (seat(&clients), seat(&clients));
        other.log_in(ClientId(3));
        let told: Vec<_> = clients.all().iter().map(|(c, _)| (c.id, c.is_logged_in)).collect();
        assert_eq!(told, [(0, false), (1, true)]);
        assert!(clients.seat(peer(), 2).is_none(), "two are enough");
        drop(one);
        assert_eq!(clients.count(), 1);
        assert!(clients.find(0).is_none() && clients.find(1).is_some());
    }
}
