//! The engine's phases: each is driven through the engine's public API and returns what it moved.
//!
//! | file | holds |
//! | --- | --- |
//! | `produce` | producers, in a closed loop or on a schedule |
//! | `schedule` | when appends are due: evenly, at random, in bursts |
//! | `follow` | consumers of what is being appended: at the end of the log, or catching up with it |
//! | `poll` | cold consumers, every byte checked |
//! | `durable` | one producer whose small batches are durable before the answer |
//! | `files` | the segment files read back without the engine: `--verify` |
//! | `moved` | what a phase moved |
//!
//! A phase that the user stops returns what it has moved until then.

pub(crate) mod durable;
pub(crate) mod files;
pub(crate) mod follow;
pub(crate) mod moved;
pub(crate) mod poll;
pub(crate) mod produce;
pub(crate) mod schedule;

use std::time::Duration;

use crate::content::Content;
use crate::interrupt::Interrupt;
use crate::live::Live;

/// What the phases of a round share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) content: &'a Content,
    pub(crate) round: u32,
    /// Most bytes of a poll's reply.
    pub(crate) poll_bytes: usize,
    pub(crate) interrupt: &'a Interrupt,
    /// What was answered, told at once. Consumers beside producers tell nothing: it is one figure.
    pub(crate) live: &'a Live,
}

/// How long a stopped phase waits for the answers that are still out.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a wait goes on before it looks whether the user stopped it.
const LOOK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
