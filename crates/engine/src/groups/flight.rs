//! What is under way in one partition of a group: polls that run, and messages that were served and
//! not stored as done.

/// What the group has stored for a partition, as far as is known here. The partition has the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stored {
    /// Nobody has looked so far, or a store was given up before its answer came.
    #[default]
    Unknown,
    /// Nothing.
    Nothing,
    /// This offset.
    Offset(u64),
}

impl From<Option<u64>> for Stored {
    fn from(offset: Option<u64>) -> Self {
        offset.map_or(Stored::Nothing, Stored::Offset)
    }
}

/// A partition's polls and stores, of its present owner.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flight {
    /// Polls that are not answered: what they will have served nobody knows.
    polls: u32,
    /// The highest offset that was served.
    polled: Option<u64>,
    stored: Stored,
}

impl Flight {
    /// True where the owner has messages, or may be getting some, that it has not stored as done.
    pub(super) fn is_busy(&self) -> bool {
        let all_done = match (self.polled, self.stored) {
            (None, _) => true,
            (Some(polled), Stored::Offset(stored)) => stored >= polled,
            (Some(_), Stored::Unknown | Stored::Nothing) => false,
        };
        self.polls > 0 || !all_done
    }

    pub(super) fn stored(&self) -> Stored {
        self.stored
    }

    pub(super) fn begin_poll(&mut self) {
        self.polls += 1;
    }

    /// A poll is over that has served messages up to `last`.
    pub(super) fn end_poll(&mut self, last: Option<u64>) {
        self.polls = self.polls.checked_sub(1).expect("each poll ends once");
        self.polled = self.polled.max(last);
    }

    /// What was stored when somebody looked; what is known already is younger.
    pub(super) fn learn(&mut self, stored: Option<u64>) {
        if self.stored == Stored::Unknown {
            self.stored = stored.into();
        }
    }

    pub(super) fn set_stored(&mut self, stored: Stored) {
        self.stored = stored;
    }

    /// As a poll that stores what it serves does: never back.
    pub(super) fn raise_stored(&mut self, to: u64) {
        self.stored = match self.stored {
            Stored::Offset(stored) => Stored::Offset(stored.max(to)),
            Stored::Unknown | Stored::Nothing => Stored::Offset(to),
        };
    }

    /// Another owner, who has polled nothing; what is stored is the group's and stays.
    pub(super) fn hand_over(&mut self) {
        *self = Flight { stored: self.stored, ..Flight::default() };
    }

    /// The partition was emptied, with what was stored.
    pub(super) fn empty(&mut self) {
        *self = Flight { stored: Stored::Nothing, ..Flight::default() };
    }
}
