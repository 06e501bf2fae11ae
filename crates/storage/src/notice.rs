//! What a partition has to tell at once, whether or not anybody asks it for something.

use std::rc::Rc;

use corelog_io::{IoError, Platform};

use crate::{Fault, Shared};

/// News of a partition.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// A write or a sync has failed: the partition takes no more appends.
    Poisoned(&'a Fault),
    /// Appends are refused for want of space, from now on.
    StorageFull(&'a IoError),
    /// There is space again.
    SpaceIsBack,
    /// An append is refused since the file that it needs could not be opened or made: for want of
    /// descriptors, for instance. The next one tries again.
    NoFile(&'a IoError),
    /// The durable mark, which an opening after a crash begins at, could not be stored. It lags; that
    /// is tried again.
    MarkLags(&'a IoError),
    /// What consumers have stored could not be read at the opening: appends are refused, and nothing
    /// is dropped, until it is. That is tried again each second.
    OffsetsUnread(&'a IoError),
    /// It was read at last.
    OffsetsRead {
        /// It was damaged: consumers begin again.
        damaged: bool,
    },
    /// A segment was sealed and the next one has begun.
    Sealed {
        /// First offset of the sealed one, which is its file name.
        segment: u64,
        /// Its bytes.
        bytes: u64,
        /// First offset of the next one.
        next: u64,
    },
    /// Segments were dropped at the front of the log.
    Dropped {
        /// First retained offset now.
        start: u64,
        /// How many.
        segments: usize,
    },
}

/// Who is told. On the partition's thread, which waits meanwhile; nothing of the partition is held.
/// It must not panic: a partition that panics tells of its poisoning from inside of that.
pub trait Observer: 'static {
    /// Something has happened.
    fn notice(&self, notice: &Notice<'_>);
}

impl<P: Platform> Shared<P> {
    /// The same, for a partition that tells `observer` what happens to it.
    #[must_use]
    pub fn observed_by(&self, observer: Rc<dyn Observer>) -> Self {
        let mut shared = self.clone();
        shared.observer = Some(observer);
        shared
    }

    pub(crate) fn tell(&self, notice: &Notice<'_>) {
        if let Some(observer) = &self.observer {
            observer.notice(notice);
        }
    }
}
