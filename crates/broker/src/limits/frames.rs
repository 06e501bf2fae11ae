//! Memory for the frames of a shard's clients, in two parts: large frames wait for large ones, and
//! never are those of the size that most clients send in their way.

use std::rc::Rc;
use std::sync::Arc;

use super::{Budget, OWN_BODY, Room, SMALL_BODY, Told};

/// Of all memory, the part of frames up to [`SMALL_BODY`]: one in so many.
const SMALL_PART: usize = 4;

/// Bytes for bodies of frames.
pub(crate) struct Frames {
    small: Rc<Budget>,
    large: Rc<Budget>,
}

impl Frames {
    /// `max` bytes of all frames together, but for one that is longer than its part alone.
    pub(crate) fn new(max: usize, told: &Arc<Told>) -> Frames {
        let small = max / SMALL_PART;
        Frames {
            small: Budget::new(small, Arc::clone(told)),
            large: Budget::new(max - small, Arc::clone(told)),
        }
    }

    /// Room for a body of `len` bytes, where it takes any but the connection's own. Cancel-safe.
    pub(crate) async fn take(&self, len: usize) -> Option<Room> {
        if len <= OWN_BODY {
            return None;
        }
        let part = if len <= SMALL_BODY { &self.small } else { &self.large };
        Some(part.take(len).await)
    }

    /// True while somebody waits for what others use.
    pub(crate) fn is_short(&self) -> bool {
        self.small.is_short() || self.large.is_short()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn each_size_waits_for_its_own_and_all_have_an_end() {
        let told = Arc::default();
        let max = 8 * SMALL_BODY;
        let frames = Frames::new(max, &told);
        let take = |len| block_on(poll_once(Box::pin(frames.take(len))));
        let small = [(); 2].map(|()| take(SMALL_BODY).expect("two go in"));
        let large = [(); 3].map(|()| take(2 * SMALL_BODY).expect("three go in"));
        assert!(small.iter().chain(&large).all(Option::is_some));
        assert_eq!(told.used.load(Ordering::Relaxed), max as u64);
        assert!(take(OWN_BODY).expect("this is no wait").is_none());
        let mut more = Box::pin(frames.take(OWN_BODY + 1));
        assert!(block_on(poll_once(&mut more)).is_none() && frames.is_short());
        drop(large);
        assert!(block_on(poll_once(&mut more)).is_none(), "that was for large ones");
        drop(small);
        assert!(block_on(poll_once(&mut more)).is_some() && !frames.is_short());
    }
}
