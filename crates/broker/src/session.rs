//! What a connection is: who is on it, and the last changes it made.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use crate::clients::Seat;
use crate::operation::Operation;
use corelog::consumers::{ClientId, Groups};

/// Replies that are kept for a client that asks again.
const REPLIES_MAX: usize = 5;

/// One connection's state.
pub(crate) struct Session {
    /// Its place in the table of connections.
    pub(crate) seat: Seat,
    pub(crate) peer: SocketAddr,
    groups: Groups,
    /// Since a login, until a logout.
    pub(crate) login: Option<LoggedIn>,
    /// Where a group's next poll without a partition begins.
    pub(crate) turn: usize,
}

impl Session {
    /// A connection on which nobody is logged in.
    pub(crate) fn new(seat: Seat, peer: SocketAddr, groups: Groups) -> Session {
        Session { seat, peer, groups, login: None, turn: 0 }
    }

    /// Ends the login, and the client's memberships where it is not logged in elsewhere.
    pub(crate) fn log_out(&mut self) {
        self.login = None;
        let groups = &self.groups;
        self.seat.log_out(|client| {
            groups.disconnect(client);
        });
    }
}

/// However a connection ends, nobody waits for its client.
impl Drop for Session {
    fn drop(&mut self) {
        self.log_out();
    }
}

/// A login that holds.
pub(crate) struct LoggedIn {
    pub(crate) client: ClientId,
    /// Its number, which replies carry.
    pub(crate) session: u64,
    changes: Changes,
}

impl LoggedIn {
    pub(crate) fn new(client: ClientId, session: u64) -> LoggedIn {
        LoggedIn { client, session, changes: Changes::default() }
    }

    /// What a change that came before was answered with.
    pub(crate) fn before(&self, change: Change) -> Before {
        self.changes.before(change)
    }

    /// Keeps the answer of a change.
    pub(crate) fn keep(&mut self, change: Change, reply: Rc<[u8]>) {
        self.changes.keep(change, reply);
    }
}

/// A request for a change, as far as it is told from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    /// The client's number of it.
    pub(crate) number: u64,
    pub(crate) operation: Operation,
    /// XXH3-64 of its body.
    pub(crate) body: u64,
}

/// What is known of a request that asks for a change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// It is new.
    Never,
    /// It was carried out; this was the reply.
    Answered(Rc<[u8]>),
    /// It was carried out; its reply is not kept any more.
    Forgotten,
    /// Another one was carried out under its number.
    Other,
}

/// The changes of one login by their numbers, which grow.
#[derive(Default)]
struct Changes {
    last: u64,
    replies: VecDeque<(Change, Rc<[u8]>)>,
}

impl Changes {
    fn before(&self, change: Change) -> Before {
        if change.number > self.last {
            return Before::Never;
        }
        match self.replies.iter().find(|(kept, _)| kept.number == change.number) {
            Some((kept, reply)) if *kept == change => Before::Answered(Rc::clone(reply)),
            Some(_) => Before::Other,
            None => Before::Forgotten,
        }
    }

    fn keep(&mut self, change: Change, reply: Rc<[u8]>) {
        if self.replies.len() == REPLIES_MAX {
            self.replies.pop_front();
        }
        self.last = self.last.max(change.number);
        self.replies.push_back((change, reply));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_carried_out_once() {
        let change = |number| Change { number, operation: Operation::CreateStream, body: 7 };
        let mut changes = Changes::default();
        assert_eq!(changes.before(change(1)), Before::Never);
        for number in 1..=6_u8 {
            changes.keep(change(number.into()), Rc::from([number]));
        }
        assert_eq!(changes.before(change(6)), Before::Answered(Rc::from([6])));
        assert_eq!(changes.before(change(2)), Before::Answered(Rc::from([2])));
        assert_eq!(changes.before(change(1)), Before::Forgotten, "five are kept");
        assert_eq!(changes.before(change(7)), Before::Never);
        assert_eq!(changes.before(Change { body: 8, ..change(6) }), Before::Other);
        let operation = Operation::DeleteStream;
        assert_eq!(changes.before(Change { operation, ..change(6) }), Before::Other);
    }
}
