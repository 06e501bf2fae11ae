//! What a poll asks for.

use std::time::Duration;

use corelog_storage::{ConsumerKey, From as Start, PollQuery};

/// Bytes of a poll that does not say.
const BYTES_DEFAULT: usize = 1 << 20;

/// What a poll asks for: where to begin, and how much at most.
///
/// At least one batch is served where there is one, however large; a batch that is selected in part
/// is served with a header of its own (message-batches.md).
///
/// ```
/// # use corelog::Poll;
/// let next = Poll::offset(17).max_messages(100).max_bytes(64 << 10);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "this is a question, it is asked with `Client::poll`"]
pub struct Poll {
    query: PollQuery,
}

impl Poll {
    fn new(from: Start) -> Poll {
        Poll { query: PollQuery::new(from, u32::MAX, BYTES_DEFAULT) }
    }

    /// From the message with this offset on. One that was deleted already is taken for the first
    /// retained one; one behind the end finds nothing yet.
    pub fn offset(offset: u64) -> Poll {
        Poll::new(Start::Offset(offset))
    }

    /// From the first batch that was appended at this time or later, microseconds since the Unix
    /// epoch.
    pub fn timestamp(us: u64) -> Poll {
        Poll::new(Start::Timestamp(us))
    }

    /// From the first retained message on.
    pub fn first() -> Poll {
        Poll::new(Start::First)
    }

    /// From `messages` before the end on.
    pub fn last(messages: u32) -> Poll {
        Poll::new(Start::Last(messages))
    }

    /// From the message behind the one whose offset `who` has stored on; from the first retained one
    /// where it has stored nothing.
    pub fn next(who: ConsumerKey) -> Poll {
        Poll::new(Start::Next(who))
    }

    /// Stores the offset of the last message that is served for `who`, unless it has stored a higher
    /// one. The poll does not wait for that: it is durable within a second.
    pub fn auto_commit(mut self, who: ConsumerKey) -> Poll {
        self.query.commit = Some(who);
        self
    }

    /// Waits so long for messages where there are none, and ends with the first that come. Costs
    /// one of the polls that may be in flight meanwhile, and nothing else.
    pub fn max_wait(mut self, wait: Duration) -> Poll {
        self.query.max_wait = wait;
        self
    }

    /// The same for a member of the group `who`, whoever it named.
    pub(crate) fn of(mut self, who: ConsumerKey) -> PollQuery {
        if let Start::Next(named) = &mut self.query.from {
            *named = who;
        }
        self.query.commit = self.query.commit.map(|_| who);
        self.query
    }

    /// At most so many bytes of batches, headers included. Default 1 MiB; the shard's limit
    /// (`Limits::poll_bytes`) holds as well.
    pub fn max_bytes(mut self, bytes: usize) -> Poll {
        self.query.max_bytes = bytes;
        self
    }

    /// At most so many messages. Default: no limit.
    pub fn max_messages(mut self, messages: u32) -> Poll {
        self.query.max_messages = messages;
        self
    }
}

impl From<Poll> for PollQuery {
    fn from(poll: Poll) -> PollQuery {
        poll.query
    }
}
