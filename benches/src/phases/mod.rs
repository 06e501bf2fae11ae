//! The engine's phases of a round: append, cold poll, durable append.

pub(crate) mod append;
pub(crate) mod durable;
pub(crate) mod moved;
pub(crate) mod poll;

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
