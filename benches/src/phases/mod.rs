//! The engine's phases of a round: append, cold poll, durable append.

pub(crate) mod append;
pub(crate) mod durable;
pub(crate) mod poll;

use std::time::{Duration, Instant};

use crate::content::Content;
use crate::interrupt::Interrupt;
use crate::plan::Plan;

/// What the phases of a round share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) content: &'a Content,
    pub(crate) plan: &'a Plan,
    pub(crate) round: u32,
    /// Appends a producer has outstanding.
    pub(crate) in_flight: usize,
    /// Most bytes of a poll's reply.
    pub(crate) poll_bytes: usize,
    pub(crate) interrupt: &'a Interrupt,
}

/// When a thread worked.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: Instant,
    end: Instant,
}

/// From the first thread's start to the last one's end, never 0. At least one span.
fn elapsed(spans: &[Span]) -> Duration {
    let start = spans.iter().map(|span| span.start).min().expect("at least one thread");
    let end = spans.iter().map(|span| span.end).max().expect("at least one thread");
    end.duration_since(start).max(Duration::from_nanos(1))
}
