//! What a connection is doing, as it says itself while it goes on: a few cells, so that a request
//! costs no clock and no timer. Somebody else looks now and then who has been at it for too long,
//! and gives the word that ends it.

use std::cell::Cell;
use std::fmt;

use super::signal::Signal;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing: its client has asked nothing.
    Idle,
    /// The first byte of a frame has come, the last one has not.
    Receiving,
    /// It has all it needs, or waits for memory: its client can do nothing about it.
    Serving,
    /// An answer is on its way.
    Replying,
    /// Its last answer is sent; its client may take it in peace.
    Closing,
}

/// Why a connection was ended that its client did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nobody has logged in.
    NoLogin,
    /// No frame came.
    Idle,
    /// A frame was begun and did not go on.
    SlowFrame,
    /// A reply was not taken.
    SlowReply,
    /// The broker stops.
    Stopping,
}

/// One connection's.
pub(crate) struct Life {
    phase: Cell<Phase>,
    /// Goes on with every phase.
    turn: Cell<u64>,
    /// Goes on with every byte.
    moved: Cell<u64>,
    is_stranger: Cell<bool>,
    why: Cell<Option<Ended>>,
    end: Signal,
}

/// One that has just begun.
impl Default for Life {
    fn default() -> Life {
        Life {
            phase: Cell::new(Phase::Idle),
            turn: Cell::default(),
            moved: Cell::default(),
            is_stranger: Cell::new(true),
            why: Cell::default(),
            end: Signal::default(),
        }
    }
}

impl Life {
    fn go_on(&self, phase: Phase) {
        self.phase.set(phase);
        self.turn.set(self.turn.get() + 1);
    }

    pub(crate) fn idle(&self) {
        self.go_on(Phase::Idle);
    }

    /// Bytes of a frame have come: the first ones, or more. 0 says nothing.
    pub(crate) fn received(&self, bytes: usize) {
        self.moved.set(self.moved.get() + bytes as u64);
        if bytes > 0 && self.phase.get() == Phase::Idle {
            self.go_on(Phase::Receiving);
        }
    }

    /// A wait for memory is over.
    pub(crate) fn receiving(&self) {
        self.go_on(Phase::Receiving);
    }

    pub(crate) fn serving(&self) {
        self.go_on(Phase::Serving);
    }

    pub(crate) fn replying(&self) {
        self.go_on(Phase::Replying);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.moved.set(self.moved.get() + bytes as u64);
    }

    pub(crate) fn closing(&self) {
        self.go_on(Phase::Closing);
    }

    /// Whether nobody is logged in.
    pub(crate) fn stranger(&self, is_stranger: bool) {
        self.is_stranger.set(is_stranger);
    }

    /// Ends when the connection is to end, and says why.
    pub(crate) async fn ended(&self) -> Ended {
        self.end.given().await;
        self.why.get().expect("the word is given with its reason")
    }

    pub(super) fn end(&self, why: Ended) {
        if self.why.get().is_none() {
            self.why.set(Some(why));
        }
        self.end.give();
    }

    pub(super) fn seen(&self) -> Seen {
        Seen {
            phase: self.phase.get(),
            turn: self.turn.get(),
            moved: self.moved.get(),
            is_stranger: self.is_stranger.get(),
        }
    }
}

/// A connection at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) phase: Phase,
    pub(super) turn: u64,
    pub(super) moved: u64,
    pub(super) is_stranger: bool,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ended::NoLogin => "nobody has logged in in time (login_timeout)",
            Ended::Idle => "no frame came in time (idle_timeout)",
            Ended::SlowFrame => "a frame was not whole in time (frame_timeout)",
            Ended::SlowReply => "a reply was not taken in time (reply_timeout)",
            Ended::Stopping => "the broker stops",
        })
    }
}
