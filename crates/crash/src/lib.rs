//! Rigs that break the engine on real files: processes that are killed, power that is cut under a
//! real file system, bits that rot, disks that misbehave. Each drives the public API like any user,
//! and each judges by what was acknowledged.
//!
//! All rigs share five things:
//!
//! | module | what it is |
//! | --- | --- |
//! | [`content`] | batches that are a function of a seed, so that stored bytes are known without keeping them |
//! | [`ledger`] | what was offered and what was answered, one line a write, from a process that may die |
//! | [`history`] | the judge's knowledge and rules: pure, no engine in it |
//! | [`changes`] | topics that come and go, stored offsets, deleted segments: who does that, and what is shown of it |
//! | [`judge`] | opens a data directory, reads everything and holds it against a history |
//!
//! The rigs: [`kill`], [`power`], [`hostile`], [`rot`]. All of them run on either [`runtime`].
#![forbid(unsafe_code)]

pub mod changes;
pub mod content;
pub mod history;
pub mod hostile;
pub mod judge;
pub mod kill;
pub mod ledger;
pub mod power;
pub mod random;
pub mod rot;
pub mod runtime;
pub mod topics;
