//! The broker's own events. Names, targets, levels and fields stay what they are (`docs/broker.md`
//! lists them); the text is for people. Nothing is formatted where nobody wants it, and of one kind
//! a few go out in a second: the next one says in `suppressed` how many were kept back.

use std::fmt::Display;
use std::net::SocketAddr;

use super::pace::Pace;
use corelog::PartitionId;
use corelog::consumers::ClientId;

/// Tells one event of the kind `$name`, if somebody wants it and not too many were told.
macro_rules! tell {
    ($events:expr, $name:ident, $level:ident, { $($fields:tt)* }, $text:literal) => {
        if ::tracing::enabled!(target: "corelog::broker", ::tracing::Level::$level)
            && let Some(suppressed) = $events.$name.allow()
        {
            ::tracing::event!(
                name: stringify!($name),
                target: "corelog::broker",
                ::tracing::Level::$level,
                { $($fields)* suppressed },
                $text
            );
        }
    };
}

/// The way to `tracing` for one broker.
#[derive(Default)]
pub(crate) struct Events {
    broker_listening: Pace,
    broker_draining: Pace,
    broker_stopped: Pace,
    connection_refused: Pace,
    connection_lost: Pace,
    connection_ended: Pace,
    frame_passed_over: Pace,
    logged_in: Pace,
    login_refused: Pace,
    member_silent: Pace,
    append_refused: Pace,
    poll_failed: Pace,
    password_changed: Pace,
    scrape_failed: Pace,
}

impl Events {
    pub(crate) fn broker_listening(&self, address: SocketAddr, shards: usize) {
        tell!(self, broker_listening, INFO, { %address, shards, }, "clients can connect");
    }

    pub(crate) fn broker_draining(&self, connections: usize) {
        tell!(self, broker_draining, INFO, { connections, },
            "no connection is accepted any more, what is under way is finished");
    }

    /// `left`: connections that were cut off.
    pub(crate) fn broker_stopped(&self, left: usize) {
        tell!(self, broker_stopped, INFO, { left, }, "all connections are over");
    }

    /// By a limit.
    pub(crate) fn connection_refused(&self, peer: SocketAddr, why: &dyn Display) {
        tell!(self, connection_refused, WARN, { %peer, why = %why, },
            "a connection was refused");
    }

    /// Before it was one.
    pub(crate) fn connection_lost(&self, error: &dyn Display) {
        tell!(self, connection_lost, WARN, { error = %error, }, "no connection accepted");
    }

    /// Not by its client, or not in order.
    pub(crate) fn connection_ended(&self, peer: SocketAddr, why: &dyn Display) {
        tell!(self, connection_ended, WARN, { %peer, why = %why, }, "a connection was ended");
    }

    pub(crate) fn frame_passed_over(&self, peer: SocketAddr, error: &dyn Display) {
        tell!(self, frame_passed_over, WARN, { %peer, error = %error, },
            "a frame says nothing and has no answer");
    }

    pub(crate) fn logged_in(&self, peer: SocketAddr, sdk: &str, sdk_version: &str) {
        tell!(self, logged_in, INFO, { %peer, sdk, sdk_version, }, "a client has logged in");
    }

    pub(crate) fn login_refused(&self, peer: SocketAddr, why: &'static str) {
        tell!(self, login_refused, WARN, { %peer, why, }, "a login was refused");
    }

    pub(crate) fn member_silent(&self, client: ClientId) {
        tell!(self, member_silent, WARN, { %client, },
            "a member was silent for too long, its groups go on");
    }

    pub(crate) fn append_refused(&self, partition: PartitionId, error: &dyn Display) {
        tell!(self, append_refused, WARN, { %partition, error = %error, },
            "a batch was not appended");
    }

    pub(crate) fn poll_failed(&self, partition: PartitionId, error: &dyn Display) {
        tell!(self, poll_failed, WARN, { %partition, error = %error, }, "a poll was not served");
    }

    pub(crate) fn password_changed(&self) {
        tell!(self, password_changed, WARN, {}, "the root user has a new password");
    }

    pub(crate) fn scrape_failed(&self, error: &dyn Display) {
        tell!(self, scrape_failed, WARN, { error = %error, }, "no metrics were given");
    }
}
