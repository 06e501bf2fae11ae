//! What a log holds now, in the figures that brokers show.

use corelog_io::Platform;

use crate::{Answer, Partition};

/// What a log holds now. What retention, a trim or a purge has dropped does not count any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Segments, the active one included.
    pub segments: usize,
    /// Bytes of their batches, appended ones included that are not written.
    pub bytes: u64,
    /// Messages that polls can see.
    pub messages: u64,
    /// Offset of the last of the messages that polls can see, or could before they were dropped;
    /// `None` where there never was one.
    pub last_offset: Option<u64>,
}

impl<P: Platform, A: Answer> Partition<P, A> {
    /// What the log holds. Costs what [`Partition::sealed_segments`] does, which is I/O at the first
    /// time only. Cancel-safe.
    pub async fn figures(&self) -> Figures {
        let looked = self.sealed_segments().await;
        // From here on nothing waits: all of it is of one moment.
        let (segments, appender) = (self.inner.segments.borrow(), self.inner.appender.borrow());
        // Of one whose end is damaged the length is not kept.
        let looked_at = |first: u64| {
            let place = looked.binary_search_by_key(&first, |segment| segment.first_offset);
            place.ok().and_then(|place| looked[place].bytes)
        };
        let sealed = segments.all().take(segments.len() - 1);
        let bytes = sealed.map(|first| match segments.facts(first) {
            Some(facts) => facts.bytes,
            None => looked_at(first).unwrap_or(0),
        });
        let end = self.inner.readable_end();
        Figures {
            segments: segments.len(),
            bytes: bytes.sum::<u64>() + appender.appended().position,
            messages: end.saturating_sub(appender.watermarks().start()),
            last_offset: end.checked_sub(1),
        }
    }
}
