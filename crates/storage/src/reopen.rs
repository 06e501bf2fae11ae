//! After a fault: the old life ends, and recovery runs in place.
//!
//! Why this is a recovery and not a flag that is taken back: after a failed write nobody knows which
//! blocks hold what; after a failed sync what can be read need not be what a power cut leaves. So
//! everything above the durable mark is read, verified and written again (`recover/rewrite`), and
//! what does not verify is cut. What was answered as `written` or `durable` is there afterwards.

use corelog_io::Platform;

use crate::partition::Partition;
use crate::{Answer, CloseError, OpenReport, ReopenError};

impl<P: Platform, A: Answer> Partition<P, A> {
    /// Ends the life of this partition, which had a fault, and begins a new one in the same place
    /// with the same configuration. The answer is a partition that takes appends; this one stays
    /// closed, whatever the answer is.
    ///
    /// First everything in flight ends, and only then files are closed and their locks let go:
    /// until then polls are served as before. A write that never comes back is waited for without
    /// end, as it might land in the new life. A caller that wants to know when that wait is over
    /// calls [`Partition::close`] first; this may be called behind it.
    ///
    /// Not cancel-safe: a dropped future leaves the partition closing or closed; open it again.
    ///
    /// # Errors
    /// See [`ReopenError`].
    pub async fn reopen(&self) -> Result<(Self, OpenReport), ReopenError> {
        if self.fault().is_none() {
            return Err(match self.inner.appender.borrow().is_closed() {
                true => ReopenError::Closed,
                false => ReopenError::NotPoisoned,
            });
        }
        match self.close().await {
            Err(CloseError::Closed) if !self.is_at_rest() => return Err(ReopenError::Closed),
            // That it was closed after a fault is what is wanted here.
            _ => {}
        }
        let inner = &self.inner;
        let config = inner.config.as_ref().clone();
        let opened = Partition::open(inner.shared.clone(), inner.place.clone(), config).await;
        opened.map_err(ReopenError::Open)
    }

    /// Closed, and nobody is about to: the files are let go.
    fn is_at_rest(&self) -> bool {
        self.inner.appender.borrow().is_closed() && self.inner.closing.borrow().is_none()
    }
}
