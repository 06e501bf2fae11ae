//! Who is connected, on all shards: a table that is looked at, and never waited for.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use corelog::ClientId;

use crate::answer::Connected;

/// The connections, and the logins on them.
#[derive(Default)]
pub(crate) struct Clients {
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
}

/// A connection's place in the table, given up when this is dropped.
pub(crate) struct Seat {
    clients: Arc<Clients>,
    number: u64,
}

impl Clients {
    /// Takes a connection in.
    pub(crate) fn seat(self: &Arc<Self>, peer: SocketAddr) -> Seat {
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        table.connections.insert(number, Entry { peer, client: None });
        Seat { clients: Arc::clone(self), number }
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

    /// Notes that `client` has logged in here, and answers the session's number. Another
    /// connection with the same client id is fenced from now on.
    pub(crate) fn log_in(&self, client: ClientId) -> u64 {
        let mut table = self.clients.lock();
        table.latest.insert(client, self.number);
        if let Some(entry) = table.connections.get_mut(&self.number) {
            entry.client = Some(client);
        }
        self.clients.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// True where another connection has logged in with the client id of this one since.
    pub(crate) fn is_fenced(&self, client: ClientId) -> bool {
        self.clients.lock().latest.get(&client) != Some(&self.number)
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

    #[test]
    fn the_latest_login_of_a_client_fences_the_others() {
        let clients = Arc::new(Clients::default());
        let (one, other) = (clients.seat(peer()), clients.seat(peer()));
        let me = ClientId(7);
        assert_eq!(one.log_in(me), 1);
        assert!(!one.is_fenced(me));
        assert_eq!(other.log_in(me), 2);
        assert!(one.is_fenced(me) && !other.is_fenced(me));
        assert_eq!(one.log_out(), None, "the client is still there, elsewhere");
        assert_eq!(other.log_out(), Some(me));
        assert_eq!(other.log_out(), None, "once");
    }

    #[test]
    fn who_is_gone_is_not_told() {
        let clients = Arc::new(Clients::default());
        let (one, other) = (clients.seat(peer()), clients.seat(peer()));
        other.log_in(ClientId(3));
        let told: Vec<_> = clients.all().iter().map(|(c, _)| (c.id, c.is_logged_in)).collect();
        assert_eq!(told, [(0, false), (1, true)]);
        drop(one);
        assert_eq!(clients.count(), 1);
        assert!(clients.find(0).is_none() && clients.find(1).is_some());
    }
}
