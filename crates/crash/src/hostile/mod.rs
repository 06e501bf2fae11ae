//! Disks that misbehave on demand, under an engine that runs.
//!
//! | file | holds |
//! | --- | --- |
//! | `rules` | which operation on which file is answered how, and for how long |
//! | `nodes` | inodes over the files of a plain directory |
//! | `fs` | the file system: everything passes through, but what a rule says |

mod fs;
mod nodes;
mod rules;

pub use fs::Disk;
pub use rules::{Answer, Kind, Op, Rule, When};
