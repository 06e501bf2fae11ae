//! Who has taken too long for what it is doing: pure, so that a test holds the clock.

use std::time::{Duration, Instant};

use super::ClientsMay;
use super::life::{Ended, Phase, Seen};

/// Time without a byte after which a connection that is in the way of others is ended: it holds
/// memory that somebody waits for.
const STALLED: Duration = Duration::from_secs(2);

/// Time that a client has to take its last answer.
const LINGER: Duration = Duration::from_secs(1);

/// What was seen of a connection, and since when that has not changed.
pub(super) struct Watch {
    seen: Seen,
    turn_since: Instant,
    moved_since: Instant,
    stranger_since: Instant,
}

/// Whether others wait for memory that such connections hold.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Short {
    pub(super) of_frames: bool,
    pub(super) of_replies: bool,
}

impl Watch {
    pub(super) fn new(seen: Seen, now: Instant) -> Watch {
        Watch { seen, turn_since: now, moved_since: now, stranger_since: now }
    }

    /// Why the connection that is `seen` now is to end, if it is.
    pub(super) fn overdue(
        &mut self,
        seen: Seen,
        now: Instant,
        may: &ClientsMay,
        short: Short,
    ) -> Option<Ended> {
        if seen.turn != self.seen.turn {
            self.turn_since = now;
        }
        if seen.turn != self.seen.turn || seen.moved != self.seen.moved {
            self.moved_since = now;
        }
        if !seen.is_stranger {
            self.stranger_since = now;
        }
        self.seen = seen;
        let turn = now.saturating_duration_since(self.turn_since);
        let stalled = now.saturating_duration_since(self.moved_since) > STALLED;
        let ended = match seen.phase {
            Phase::Idle => (turn > may.idle_timeout).then_some(Ended::Idle),
            Phase::Receiving => (turn > may.frame_timeout || (short.of_frames && stalled))
                .then_some(Ended::SlowFrame),
            Phase::Replying => (turn > may.reply_timeout || (short.of_replies && stalled))
                .then_some(Ended::SlowReply),
            Phase::Closing => (turn > LINGER).then_some(Ended::Stopping),
            Phase::Serving => None,
        };
        let strange = now.saturating_duration_since(self.stranger_since);
        let is_late = strange > may.login_timeout && seen.phase != Phase::Serving;
        ended.or(is_late.then_some(Ended::NoLogin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(phase: Phase) -> Seen {
        Seen { phase, turn: 0, moved: 0, is_stranger: false }
    }

    fn may() -> ClientsMay {
        let secs = Duration::from_secs;
        ClientsMay {
            login_timeout: secs(1000),
            idle_timeout: secs(40),
            frame_timeout: secs(30),
            reply_timeout: secs(20),
            ..ClientsMay::default()
        }
    }

    const NOBODY: Short = Short { of_frames: false, of_replies: false };

    #[test]
    fn each_phase_has_its_time() {
        let table = [
            (Phase::Idle, 40, Some(Ended::Idle)),
            (Phase::Receiving, 30, Some(Ended::SlowFrame)),
            (Phase::Replying, 20, Some(Ended::SlowReply)),
            (Phase::Closing, 1, Some(Ended::Stopping)),
            (Phase::Serving, 1_000_000, None),
        ];
        for (phase, secs, expected) in table {
            let now = Instant::now();
            let mut watch = Watch::new(seen(phase), now);
            let at = |more_ms: u64| now + Duration::from_millis(secs * 1000 + more_ms);
            assert_eq!(watch.overdue(seen(phase), at(0), &may(), NOBODY), None, "{phase:?}");
            assert_eq!(watch.overdue(seen(phase), at(1), &may(), NOBODY), expected, "{phase:?}");
        }
    }

    /// Bytes that come one by one do not make a frame.
    #[test]
    fn a_byte_is_no_progress_and_a_frame_is() {
        let now = Instant::now();
        let mut watch = Watch::new(seen(Phase::Receiving), now);
        let drip = Seen { moved: 7, ..seen(Phase::Receiving) };
        let late = now + Duration::from_secs(31);
        assert_eq!(watch.overdue(drip, late, &may(), NOBODY), Some(Ended::SlowFrame));
        let next = Seen { turn: 1, ..drip };
        assert_eq!(watch.overdue(next, late, &may(), NOBODY), None);
    }

    #[test]
    fn who_stands_still_in_the_way_of_others_is_ended_sooner() {
        let now = Instant::now();
        let late = now + Duration::from_secs(3);
        for (phase, short, ended) in [
            (Phase::Receiving, Short { of_frames: true, ..NOBODY }, Some(Ended::SlowFrame)),
            (Phase::Receiving, Short { of_replies: true, ..NOBODY }, None),
            (Phase::Replying, Short { of_replies: true, ..NOBODY }, Some(Ended::SlowReply)),
            (Phase::Idle, Short { of_frames: true, of_replies: true }, None),
        ] {
            let mut watch = Watch::new(seen(phase), now);
            assert_eq!(watch.overdue(seen(phase), late, &may(), short), ended, "{phase:?}");
            let mut watch = Watch::new(seen(phase), now);
            let moves = Seen { moved: 1, ..seen(phase) };
            assert_eq!(watch.overdue(moves, late, &may(), short), None, "{phase:?}, it moves");
        }
    }

    #[test]
    fn strangers_may_not_stay_whatever_they_send() {
        let now = Instant::now();
        let may = ClientsMay { login_timeout: Duration::from_secs(5), ..may() };
        let stranger = |turn| Seen { turn, is_stranger: true, ..seen(Phase::Idle) };
        let mut watch = Watch::new(stranger(0), now);
        let at = |secs| now + Duration::from_secs(secs);
        assert_eq!(watch.overdue(stranger(1), at(5), &may, NOBODY), None);
        let known = Seen { turn: 2, ..seen(Phase::Idle) };
        assert_eq!(watch.overdue(known, at(6), &may, NOBODY), None);
        // Logged out again, it has its time anew.
        assert_eq!(watch.overdue(stranger(3), at(10), &may, NOBODY), None);
        assert_eq!(watch.overdue(stranger(4), at(12), &may, NOBODY), Some(Ended::NoLogin));
    }
}
