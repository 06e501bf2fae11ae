//! Bit rot and misplaced files: one thing at a time goes wrong with a data directory at rest, then
//! the engine opens it.
//!
//! | step | file |
//! | --- | --- |
//! | a child process writes a data directory, and closes it or is killed | `specimen` |
//! | what goes wrong: a bit, a sector | `wound` |
//! | or a file that is missing, swapped, doubled, cut, grown, or none of ours | `misplaced` |
//! | what may be missing after it, and no more than that | `expect` |
//! | a copy is harmed, and put right again for the next case | `working` |
//! | the engine opens it twice; everything is read, by offset and by time, and appended to | `judge` |
//! | what `corelog-dump verify` says of it, which is to agree with that | `dumped` |
//! | cases that harm different partitions share an opening | `campaign` |
//!
//! A case is named by a line of text that replays it. What is demanded: a batch is served byte for
//! byte or its damage is named, a consumer that steps over it gets all the rest, other partitions
//! notice nothing, offsets are not used twice, time does not go back, and nothing panics or hangs.

mod campaign;
mod case;
mod dumped;
mod expect;
mod judge;
mod misplaced;
mod specimen;
mod working;
mod wound;

pub use campaign::{Campaign, Failure, Outcome};
pub use case::Case;
pub use specimen::{Ending, Specimen, write_and_wait};
