//! Power cuts on a real file system.
//!
//! ```text
//!   corelog-powercut write ──────► the engine ──► ext4 or XFS ──► loop device ──► recorder (FUSE)
//!     says what it was answered                                                     │ every write,
//!         │ each line with the journal's place when it was read ◄───────────────────┤ answer, flush
//!         ▼                                                                         ▼
//!      ledger ─────► judge ◄── the engine ◄── ext4 or XFS ◄── loop device ◄── image that a cut left
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | [`image`] | the bytes of a device |
//! | [`journal`] | what a device was asked and answered, in order |
//! | [`cut`] | what a power cut at a place of a journal may leave |
//! | [`recorder`] | the device: a FUSE file that keeps a journal |
//! | [`device`] | the loop device on it, the file system on that |
//! | [`machine`] | what the rig needs of the machine |
//! | [`plan`] | what a seed draws: engine, topics, load |
//! | [`writer`] | the process whose power is cut |
//! | [`watch`] | what that process said, and how far the journal had come then |
//! | [`verify`] | the process that opens an engine on an image and judges it |
//! | [`round`] | one recording and its cuts, and cuts of the recoveries from these |
//! | [`tally`] | what was done, counted |
//!
//! The engine runs in another process than the recorder: a process whose file system is served by
//! itself can wait for itself, in its end too.

pub mod cut;
pub mod device;
pub mod image;
pub mod journal;
pub mod machine;
pub mod plan;
pub mod recorder;
pub mod round;
pub mod tally;
pub mod verify;
pub mod watch;
pub mod writer;
