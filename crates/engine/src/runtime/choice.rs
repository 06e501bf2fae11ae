//! The two runtimes, by name.

use std::fmt;
use std::str::FromStr;

/// What drives the shards of an engine: their tasks, their timers, their file I/O. Chosen when the
/// engine is opened ([`EngineBuilder::runtime`](crate::EngineBuilder::runtime)).
///
/// Both keep the same promises, pass the same tests and leave the same files: a data directory that
/// one of them has written opens on the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Runtime {
    /// The executor of the crate glommio. Code on a shard may use glommio itself, its sockets for
    /// instance.
    #[default]
    Glommio,
    /// An executor of our own over one io_uring a shard: fewer system calls an operation, and no
    /// thread that watches over sleeps. Code on a shard has what
    /// [`ShardContext`](crate::ShardContext) offers, and channels; nothing of glommio's works there.
    /// Needs Linux 5.13.
    Ring,
}

/// A word that names no [`Runtime`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRuntime {
    word: String,
}

impl Runtime {
    /// Both.
    pub const ALL: [Runtime; 2] = [Runtime::Glommio, Runtime::Ring];

    /// Its name, in lower case, as command lines and results have it.
    pub const fn name(self) -> &'static str {
        match self {
            Runtime::Glommio => "glommio",
            Runtime::Ring => "ring",
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Runtime {
    type Err = UnknownRuntime;

    fn from_str(word: &str) -> Result<Runtime, UnknownRuntime> {
        let named = Runtime::ALL.into_iter().find(|runtime| runtime.name() == word);
        named.ok_or_else(|| UnknownRuntime { word: word.to_owned() })
    }
}

impl fmt::Display for UnknownRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = Runtime::ALL;
        write!(f, "there is no runtime {:?}: choose {one} or {other}", self.word)
    }
}

impl std::error::Error for UnknownRuntime {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for runtime in Runtime::ALL {
            assert_eq!(runtime.to_string().parse(), Ok(runtime));
        }
        let unknown = "tokio".parse::<Runtime>().unwrap_err().to_string();
        assert_eq!(unknown, "there is no runtime \"tokio\": choose glommio or ring");
    }
}
