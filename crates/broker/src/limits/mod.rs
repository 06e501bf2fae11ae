//! What clients may use, and what becomes of those that use it up.
//!
//! | file | what it is |
//! | --- | --- |
//! | `budget` | bytes that are handed out to frames and replies of a shard; who gets none waits |
//! | `frames` | those of frames: small ones do not wait for large ones |
//! | `life` | what a connection is doing, as it says itself, and the word that ends it |
//! | `overdue` | who has taken too long for what it is doing: a pure decision |
//! | `lives` | the connections of a shard, looked at now and then |
//! | `signal` | a word that one task waits for |

mod budget;
mod frames;
mod life;
mod lives;
mod overdue;
mod signal;

use std::time::Duration;

pub(crate) use budget::{Budget, Room, Told};
pub(crate) use frames::Frames;
pub(crate) use life::{Ended, Life};
pub(crate) use lives::{Lives, Living};
pub(crate) use signal::Signal;

use crate::frame::{FRAME_MAX, HEADER_LEN};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Bodies up to this long, bytes, come into memory that each connection has. So a client with a
/// small request is served whatever others have used up, and those of strangers are bounded: a login
/// is a few hundred bytes.
pub(crate) const OWN_BODY: usize = AT_ONCE - HEADER_LEN;

/// What a connection receives at once where nobody knows what comes, bytes: a small frame is received
/// by one call, and an idle connection has this much.
pub(crate) const AT_ONCE: usize = 4 * KIB;

/// Bodies up to this long, bytes, do not wait for longer ones.
pub(crate) const SMALL_BODY: usize = 64 * KIB;

/// What clients may use. Fixed when the broker starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientsMay {
    /// Connections at a time; more are ended at once. At most half of the files that the process may
    /// open. Default 8,192.
    pub connections: usize,
    /// Connections of one shard; the kernel deals them out. Default: no limit but the other one.
    pub connections_per_shard: usize,
    /// Longest frame with its header, bytes: 64 KiB to 64 MiB, the default. A longer one ends its
    /// connection.
    pub frame_bytes: usize,
    /// Memory for bodies of more than 3,840 bytes that are received or served, bytes, of all shards
    /// together, each of which has its part; a quarter of it for those up to 64 KiB. Where it is used
    /// up sockets are not read until there is some. One longer body than a shard has memory for is
    /// taken alone. Default 256 MiB.
    pub frame_memory: usize,
    /// Memory for replies that clients have not taken yet, bytes, of all shards together, each of
    /// which has its part. A poll takes what it may get before it begins (`poll_bytes` of the
    /// engine's limits), and waits where there is less. Only a batch that is longer than that goes
    /// beyond: there is none where `frame_bytes` is not above `poll_bytes`. Default 256 MiB.
    pub reply_memory: usize,
    /// Logins from one address (of IPv6: one network of 64 bits) that may fail in a minute. Beyond,
    /// none from there is looked at until the next one may fail. Default 20.
    pub failed_logins: u32,
    /// Time from the connection to a login. Default 60 s.
    pub login_timeout: Duration,
    /// Time without a frame. Clients of the SDK send one every 5 s. Default 5 min.
    pub idle_timeout: Duration,
    /// Time from the first byte of a frame to its last one. Default 30 s, as clients wait no longer.
    pub frame_timeout: Duration,
    /// Time for which a reply may lie there untaken. Default 30 s.
    pub reply_timeout: Duration,
}

impl Default for ClientsMay {
    fn default() -> ClientsMay {
        let secs = Duration::from_secs;
        ClientsMay {
            connections: 8192,
            connections_per_shard: usize::MAX,
            frame_bytes: FRAME_MAX,
            frame_memory: 256 * MIB,
            reply_memory: 256 * MIB,
            failed_logins: 20,
            login_timeout: secs(60),
            idle_timeout: secs(300),
            frame_timeout: secs(30),
            reply_timeout: secs(30),
        }
    }
}

impl ClientsMay {
    /// What is wrong with it, by the name of the field.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let counts = [
            ("connections", self.connections, 1, usize::MAX),
            ("connections_per_shard", self.connections_per_shard, 1, usize::MAX),
            ("frame_bytes", self.frame_bytes, SMALL_BODY + HEADER_LEN, FRAME_MAX),
            ("frame_memory", self.frame_memory, MIB, usize::MAX),
            ("failed_logins", self.failed_logins as usize, 1, u32::MAX as usize),
            ("reply_memory", self.reply_memory, MIB, usize::MAX),
        ];
        for (name, value, min, max) in counts {
            if !(min..=max).contains(&value) {
                let to = if max == usize::MAX { "more".to_owned() } else { max.to_string() };
                return Err((name, format!("{value} is not allowed: choose {min} to {to}")));
            }
        }
        let times = [
            ("login_timeout", self.login_timeout),
            ("idle_timeout", self.idle_timeout),
            ("frame_timeout", self.frame_timeout),
            ("reply_timeout", self.reply_timeout),
        ];
        for (name, time) in times {
            if time < Duration::from_millis(10) {
                return Err((name, format!("{time:?} is not allowed: choose 10ms or more")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_allowed_and_each_wrong_value_is_named() {
        ClientsMay::default().check().unwrap();
        type Set = fn(&mut ClientsMay);
        let wrong: [(&str, Set); 8] = [
            ("connections", |may| may.connections = 0),
            ("connections_per_shard", |may| may.connections_per_shard = 0),
            ("frame_bytes", |may| may.frame_bytes = FRAME_MAX + 1),
            ("frame_bytes", |may| may.frame_bytes = SMALL_BODY),
            ("frame_memory", |may| may.frame_memory = 0),
            ("reply_memory", |may| may.reply_memory = MIB - 1),
            ("failed_logins", |may| may.failed_logins = 0),
            ("reply_timeout", |may| may.reply_timeout = Duration::ZERO),
        ];
        for (name, set) in wrong {
            let mut may = ClientsMay::default();
            set(&mut may);
            assert_eq!(may.check().unwrap_err().0, name);
        }
    }
}
