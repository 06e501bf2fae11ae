//! The active file's handle may be given up while the appender rests, and is asked for again before
//! anything is stamped or synced.

use std::sync::Arc;

use corelog_io::{Disk, IoError};

use super::{Action, Appender};
use crate::AppendError;
use crate::waiting::Pending;

impl<D: Disk, A> Appender<D, A> {
    /// Asks for the handle, once.
    pub(super) fn open_file(&mut self) -> Option<Action<D::Bytes>> {
        if self.busy.opening || self.busy.parking {
            return None;
        }
        self.busy.opening = true;
        Some(Action::OpenFile)
    }

    /// True where nothing needs the handle until the next call comes.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_over = self.closing || self.closed;
        self.pending.is_empty()
            && self.waiting.is_empty()
            && !(is_over || self.rolling)
            && self.is_quiet()
    }

    /// The handle is given up, until [`Appender::parked`]. False where it is needed.
    pub(crate) fn begin_parking(&mut self) -> bool {
        if !self.is_at_rest() {
            return false;
        }
        self.busy.parking = true;
        true
    }

    /// The file is closed, and may be opened again.
    pub(crate) fn parked(&mut self) {
        self.busy.parking = false;
    }

    /// The file is open again.
    pub(crate) fn file_opened(&mut self) {
        self.busy.opening = false;
    }

    /// The file could not be opened again. Whoever needed it is answered; the next one tries anew.
    pub(crate) fn no_file(&mut self, error: Arc<IoError>) {
        self.busy.opening = false;
        // Only a flush can wait for a sync without having kept the handle.
        self.waiting.refuse_durable(&error, &mut self.ready);
        if matches!(self.pending.front(), Some(Pending::Append { .. })) {
            self.refuse_front(AppendError::NoFile(error));
        }
    }
}
