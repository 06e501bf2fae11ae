//! Bugs on demand: known mistakes that the simulator must catch, so that its silence means something.
//!
//! Only the feature `canary` builds them, and only `corelog-sim` enables that, for its own tests. In
//! every other build [`is`] is the constant `false`. A bug is switched on for the calling thread.
//!
//! To add one: a variant that says what goes wrong, `canary::is(..)` at the place where the mistake
//! would be made, and a line in `crates/sim/tests/canaries.rs`.

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "canary"), expect(unreachable_pub, reason = "the feature shows it"))]
pub enum Canary {
    /// An append is answered as `Written` or `Durable` when it is appended.
    EarlyAck,
    /// `durable`, and the mark after it (an O_DSYNC write that makes only itself durable), move over
    /// writes that no sync has covered.
    SkippedSync,
    /// Recovery begins at an index entry above the durable mark.
    TrustedIndex,
    /// Retention drops what a consumer has not read.
    IgnoredBarrier,
    /// Segments are unlinked before the first retained offset is durable.
    EarlyUnlink,
    /// A consumer's offset is answered as durable when it is in memory.
    EarlyOffset,
}

#[cfg(feature = "canary")]
thread_local! {
    static SET: std::cell::Cell<Option<Canary>> = const { std::cell::Cell::new(None) };
}

/// Switches a mistake on, or all off, for this thread.
#[cfg(feature = "canary")]
pub fn set(canary: Option<Canary>) {
    SET.set(canary);
}

/// The mistake that is switched on for this thread.
#[cfg(feature = "canary")]
pub fn get() -> Option<Canary> {
    SET.get()
}

#[cfg(feature = "canary")]
pub(crate) fn is(canary: Canary) -> bool {
    SET.get() == Some(canary)
}

#[cfg(not(feature = "canary"))]
pub(crate) const fn is(_: Canary) -> bool {
    false
}
