//! What a run says: a few lines for people, and files for scripts, tools and browsers.
//!
//! Units stand in the names. A ratio is engine over ceiling, per round, and then the median of the
//! rounds; percentiles come from merged histograms. What was not measured is null, and what an
//! answer promised (written, durable) stands beside the figure. The page for browsers is made of
//! the JSON, so that it shows nothing that scripts cannot have.

mod csv;
mod curve;
mod doubts;
pub(crate) mod hdr;
pub(crate) mod html;
mod json;
pub(crate) mod schema;
mod text;

use std::time::SystemTime;

pub(crate) use curve::percentiles;
pub(crate) use json::{ended_name, program};

use crate::args::Percentiles;
use crate::machine::Machine;
use crate::results::Phase;
use crate::run::{Outcome, Settings};

/// Version of the JSON: raised when a key changes its meaning or goes; new keys do not count.
pub(crate) const SCHEMA: u32 = 1;

/// A run, ready to be told.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) machine: &'a Machine,
    pub(crate) outcome: &'a Outcome,
    /// When the run began, by the clock on the wall.
    pub(crate) started: SystemTime,
    /// Those that the text tells; files have their own.
    pub(crate) percentiles: Percentiles,
}

impl Report<'_> {
    fn phase(&self, name: &str) -> Option<&Phase> {
        self.outcome.phase(name)
    }
}

#[cfg(test)]
mod tests;
