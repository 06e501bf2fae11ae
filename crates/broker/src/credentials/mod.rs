//! The root user's password: kept as a hash, and checked away from the shards.
//!
//! | file | what it is |
//! | --- | --- |
//! | `hash` | a password as it is stored: Argon2id with a salt |
//! | `file` | where it is stored, and which password holds when the broker starts |
//! | `gate` | a thread that checks logins, one after the other |
//! | `failures` | addresses from which too many have failed |

mod failures;
mod file;
mod gate;
mod hash;

pub use file::PasswordFileError;
pub(crate) use file::settle;
pub(crate) use gate::Gate;
