//! Disks that misbehave on demand, under an engine that runs.
//!
//! | file | holds |
//! | --- | --- |
//! | `rules` | which operation on which file is answered how, and for how long |
//! | `nodes` | inodes over the files of a plain directory |
//! | `traffic` | producers and consumers that go on under all that, and judge every answer |
//! | `stage` | the engine and its topics |
//! | `trouble` | rules and their times, drawn from a seed |
//! | `campaign` | a running engine, trouble, calm, and what must be true in each |
//! | `fs` | the file system: everything passes through, but what a rule says |

mod campaign;
mod fs;
mod nodes;
mod rules;
mod stage;
mod traffic;
mod trouble;

pub use campaign::{Campaign, Failure, Summary};
pub use fs::{Disk, Watch};
pub use rules::{Answer, Kind, Op, Rule, When};
pub use stage::{FSYNC, PARTITIONS, PLAIN, builder, create_topics, histories, limits};
pub use traffic::{Counts, Seen, Traffic, read_all};
