//! Which errors the world has given cause for, in this life. An error without a cause is a failure.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use corelog_io::IoOp;
use corelog_io::sim::errno;

use crate::door::Cause;
use crate::params::Params;

/// Below this, buffers are so few that one may wait for them in vain.
const SCARCE_BYTES: usize = 1 << 20;

/// What was made to go wrong.
#[derive(Debug, Default)]
pub(crate) struct Allowed {
    /// Error numbers that operations were made to answer, and the operations.
    injected: BTreeSet<(i32, u8)>,
    /// Space was short.
    pub(crate) full: bool,
    /// Descriptors were short.
    pub(crate) descriptors: bool,
    /// Buffers were short: small from the start, or made so.
    pub(crate) buffers: bool,
}

impl Allowed {
    /// What the parameters alone give cause for.
    pub(crate) fn of(params: &Params) -> Self {
        // Who waits a second for a buffer that others take first is answered with an error.
        Allowed { buffers: params.pool_bytes < SCARCE_BYTES, ..Allowed::default() }
    }

    /// `op` was made to answer `errno`.
    pub(crate) fn inject(&mut self, op: IoOp, errno: i32) {
        self.injected.insert((errno, op as u8));
    }

    /// Whether any operation was made to fail.
    pub(crate) fn has_errors(&self) -> bool {
        !self.injected.is_empty()
    }

    /// Whether anything was made to go wrong.
    pub(crate) fn has_causes(&self) -> bool {
        self.has_errors() || self.full || self.descriptors || self.buffers
    }

    /// Whether `op` was made to fail.
    pub(crate) fn injected_any(&self, op: IoOp) -> bool {
        self.injected.iter().any(|(_, of)| *of == op as u8)
    }

    fn injected(&self, cause: Cause) -> bool {
        // `Lock` is how an opening names its lock.
        let op = if cause.op == IoOp::Lock { IoOp::Open } else { cause.op };
        cause.errno.is_some_and(|errno| self.injected.contains(&(errno, op as u8)))
    }

    /// Whether an append may be answered `StorageFull`.
    pub(crate) fn full(&self, cause: Cause) -> bool {
        self.full || (cause.errno == Some(errno::ENOSPC) && self.injected(cause))
    }

    /// Whether a partition may be poisoned: by an injected error. A full disk, and want of
    /// descriptors or buffers, never poison: they are met before an offset is stamped.
    pub(crate) fn poison(&self, cause: Cause) -> bool {
        self.injected(cause)
    }

    /// Whether an opening, a close, a roll or a poll may meet this error.
    pub(crate) fn error(&self, cause: Cause) -> bool {
        let descriptors = self.descriptors && cause.errno == Some(errno::EMFILE);
        let full = self.full && cause.errno == Some(errno::ENOSPC);
        let buffers = self.buffers && cause.kind == ErrorKind::WouldBlock;
        self.injected(cause) || descriptors || full || buffers
    }
}
