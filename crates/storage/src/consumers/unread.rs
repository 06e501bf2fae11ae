//! Stored offsets that could not be read at an opening, for want of descriptors perhaps: they are read
//! again each second, until it works.
//!
//! Until then nobody knows them. One may lie above the log's end, since a crash took what it was stored
//! for, and what was appended now would count as consumed when it is read at last; so appends are
//! refused. Polls that name their place are served.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use corelog_io::{Clock, IoError, Platform, Spawn};

use super::{Consumers, Listed, Storing, load};
use crate::partition::Inner;
use crate::{Answer, Notice};

/// The time between two attempts.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Why stored offsets are not known.
pub(super) struct Unread {
    pub(super) why: Arc<IoError>,
    /// Another attempt may go otherwise: it is not a newer release's file.
    pub(super) again: bool,
}

impl Consumers {
    /// Why nothing may be appended yet; `None` where the stored offsets are known.
    pub(crate) fn unread(&self) -> Option<Arc<IoError>> {
        self.state.borrow().unread.as_ref().map(|unread| Arc::clone(&unread.why))
    }
}

impl<P: Platform, A: Answer> Inner<P, A> {
    /// Tells of offsets that could not be read, and sees that they are read again.
    pub(crate) fn offsets_unread(self: &Rc<Self>) {
        let Some(why) = self.consumers.unread() else { return };
        self.shared.tell(&Notice::OffsetsUnread(&why));
        self.read_offsets_later();
    }

    /// Holds nothing of the partition meanwhile: it may be closed, or go.
    fn read_offsets_later(self: &Rc<Self>) {
        {
            let state = self.consumers.state.borrow();
            if state.ended || state.unread.as_ref().is_none_or(|unread| !unread.again) {
                return;
            }
        }
        let platform = self.shared.platform();
        let (sleep, weak) = (platform.clock().sleep(READ_AGAIN_AFTER), Rc::downgrade(self));
        platform.spawn().spawn(async move {
            sleep.await;
            if let Some(inner) = weak.upgrade() {
                let of = Rc::clone(&inner);
                inner.spawn(async move { of.read_offsets_again().await });
            }
        });
    }

    async fn read_offsets_again(self: &Rc<Self>) {
        {
            let mut state = self.consumers.state.borrow_mut();
            if state.ended {
                return;
            }
            state.storing = true;
        }
        // A close waits for the end of it.
        let mut storing = Storing { inner: Rc::clone(self), table: None };
        let place = &self.place;
        let (found, table, damaged) =
            load(&self.shared, &place.dir, place.incarnation, Listed::PERHAPS).await;
        let must_store = {
            let mut state = self.consumers.state.borrow_mut();
            state.table = Some(table);
            state.take_over(found)
        };
        let is_read = match must_store {
            None => false,
            Some(must_store) => !must_store || storing.store().await.is_ok(),
        };
        drop(storing);
        if !is_read {
            return self.read_offsets_later();
        }
        {
            let mut state = self.consumers.state.borrow_mut();
            state.unread = None;
            state.drop_groups();
        }
        self.store_offsets_soon();
        self.shared.tell(&Notice::OffsetsRead { damaged });
    }
}
