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

    /// Lets go of whoever has been silent for too long at `now`: `release` ends what a client is
    /// bound to, and says whether that was anything; who was is marked as stale and answered here.
    ///
    /// `release` is called with the table held, as by [`Seat::log_out`], once for a client at most.
    pub(crate) fn end_stale(
        &self,
        now: u64,
        mut release: impl FnMut(ClientId) -> bool,
    ) -> Vec<ClientId> {
        let is_silent = |entry: &Entry| {
            now.saturating_sub(entry.pulse.heard.load(Ordering::Relaxed)) > SILENCE_MAX
        };
        let all = self.lock();
        let silent = all.connections.iter().filter(|(_, entry)| is_silent(entry));
        let silent: Vec<u64> = silent.map(|(number, _)| *number).collect();
        drop(all);
        let mut stale = Vec::new();
        for number in silent {
            // One by one: there may be thousands, and others come and go meanwhile.
            let table = self.lock();
            let entry = table.connections.get(&number).filter(|entry| is_silent(entry));
            let Some((entry, client)) = entry.and_then(|entry| Some((entry, entry.client?))) else {
                continue;
            };
            // A client that has logged in elsewhere since is not silent because it is here.
            if table.latest.get(&client) == Some(&number) && release(client) {
                entry.pulse.is_stale.store(true, Ordering::Relaxed);
                stale.push(client);
            }
        }
        stale
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

    /// Held for a few look-ups at a time and for what a group does in memory, never across an await.
    /// Nobody asks for it who holds a group's lock.
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

    /// Notes that nobody is logged in here any more. Where the client is not logged in anywhere else
    /// either, `release` ends what it is bound to.
    ///
    /// `release` is called with the table held: a login of the same client on another shard comes
    /// before it, and is found, or behind it, so that what it joins stays.
    pub(crate) fn log_out(&self, release: impl FnOnce(ClientId)) {
        let mut table = self.clients.lock();
        let entry = table.connections.get_mut(&self.number);
        let Some(client) = entry.and_then(|entry| entry.client.take()) else { return };
        if table.latest.get(&client) == Some(&self.number) {
            table.latest.remove(&client);
            release(client);
        }
    }

    /// Does something as the client of this connection, unless another connection has logged in with
    /// its id: none does so before it is done.
    pub(crate) fn unless_fenced<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let _table = self.clients.lock();
        (!self.is_fenced()).then(act)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Whoever has a login to end has ended it before.
        self.log_out(|_| ());
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

    /// Whose memberships end by a logout.
    fn logged_out(seat: &Seat) -> Option<ClientId> {
        let mut gone = None;
        seat.log_out(|client| gone = Some(client));
        gone
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
        assert_eq!(logged_out(&one), None, "the client is still there, elsewhere");
        assert_eq!(one.unless_fenced(|| 7), None);
        assert_eq!(other.unless_fenced(|| 7), Some(7));
        assert_eq!(logged_out(&other), Some(me));
        assert_eq!(logged_out(&other), None, "once");
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
        assert_eq!(clients.end_stale(now + SILENCE_MAX, is_member), []);
        assert!(member.beat());
        assert_eq!(clients.end_stale(now + SILENCE_MAX + 2, is_member), [ClientId(1)]);
        assert!(!member.beat() && member.beat());
        assert!(other.beat(), "who is in no group may be silent");
    }

    /// An old connection that hangs says nothing about the client, which is at work elsewhere.
    #[test]
    fn a_connection_that_was_left_ends_nothing() {
        let clients = Arc::new(Clients::default());
        let (old, new) = (seat(&clients), seat(&clients));
        old.log_in(ClientId(1));
        new.log_in(ClientId(1));
        let late = clients.now() + SILENCE_MAX + 2;
        new.pulse.heard.store(late, Ordering::Relaxed);
        assert_eq!(clients.end_stale(late, |_| true), []);
    }

    /// A client that goes on one shard while it comes on another one: its new membership is never
    /// ended by its old connection.
    #[test]
    fn who_comes_back_while_he_is_let_go_stays() {
        for _ in 0..2000 {
            let clients = Arc::new(Clients::default());
            let (old, new) = (seat(&clients), seat(&clients));
            let me = ClientId(1);
            old.log_in(me);
            let is_member = AtomicBool::new(true);
            std::thread::scope(|scope| {
                scope.spawn(|| old.log_out(|_| is_member.store(false, Ordering::SeqCst)));
                scope.spawn(|| {
                    new.log_in(me);
                    new.unless_fenced(|| is_member.store(true, Ordering::SeqCst)).unwrap();
                });
            });
            assert!(is_member.load(Ordering::SeqCst));
        }
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
