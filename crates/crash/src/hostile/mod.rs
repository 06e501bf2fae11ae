//! Disks that misbehave on demand, under an engine that runs.
//!
//! | file | holds |
//! | --- | --- |
//! | `rules` | which operation on which file is answered how, and for how long |
//! | `nodes` | inodes over the files of a plain directory |
//! | `traffic` | producers and consumers that go on under all that, and judge every answer |
//! | `fs` | the file system: everything passes through, but what a rule says |

mod fs;
mod nodes;
mod rules;
mod traffic;

pub use fs::{Disk, Watch};
pub use rules::{Answer, Kind, Op, Rule, When};
pub use traffic::{Counts, Seen, Traffic, read_all};
