//! Whose code made an allocation: the innermost frame whose file is neither the standard library's
//! nor the benchmark's.
//!
//! By file and not by name: optimised code has names without paths for what was inlined.

use std::backtrace::Backtrace;

/// An allocation's author.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blamed {
    /// The package: `corelog-storage`, `glommio`.
    pub owner: String,
    /// The line that allocated and, where it is not the engine's, the engine's line that it worked
    /// for.
    pub place: String,
}

impl Blamed {
    /// True for the packages of the engine.
    pub fn is_ours(&self) -> bool {
        self.owner.starts_with("corelog-")
    }
}

/// The author of the allocation with this backtrace; None where no line is known.
pub fn blame(trace: &Backtrace) -> Option<Blamed> {
    blame_in(&trace.to_string())
}

/// The same, from a backtrace's text: each frame has a line `at FILE:LINE:COLUMN`.
fn blame_in(text: &str) -> Option<Blamed> {
    let places = text.lines().filter_map(|line| line.trim().strip_prefix("at "));
    let mut owned = places.filter_map(|place| {
        let (owner, path) = owner(place)?;
        let (path, _column) = path.rsplit_once(':')?;
        Some(Blamed { owner, place: path.to_owned() })
    });
    let mut blamed = owned.next()?;
    if !blamed.is_ours()
        && let Some(below) = owned.find(Blamed::is_ours)
    {
        blamed.place += &format!(" for {} {}", below.owner, below.place);
    }
    Some(blamed)
}

/// The package of a file, and its path in there. None for the standard library, the benchmark and C.
fn owner(path: &str) -> Option<(String, &str)> {
    if path.starts_with("/rustc/") || path.contains("/rustlib/") {
        return None;
    }
    let (before, inside) = path.split_once("/src/")?;
    // Registries have a folder `src` of their own above the packages.
    let (before, inside) = match inside.split_once("/src/") {
        Some((package, inside)) => (package, inside),
        None => (before, inside),
    };
    let folder = before.rsplit('/').next()?;
    if before.rsplit('/').nth(1) == Some("crates") {
        return Some((format!("corelog-{folder}"), inside));
    }
    // `glommio-0.9.0`; without a version it is a folder of ours that is no crate of the engine.
    let (name, version) = folder.rsplit_once('-')?;
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| (name.to_owned(), inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "   0: count
             at ./src/micro/allocator.rs:63:21
   1: alloc_impl
             at /rustc/59807616/library/alloc/src/alloc.rs:312:9
   2: allocate<glommio::task::Task>
             at /srv/registry/src/index-1949cf8c/glommio-0.9.0/src/task/raw.rs:100:5
   3: spawn
             at /srv/corelog/crates/engine/src/runtime/spawn.rs:88:9
   4: run
             at /srv/corelog/crates/storage/src/partition.rs:300:13
   5: clone3
             at ./misc/../sysdeps/unix/sysv/linux/x86_64/clone3.S:81:0";

    #[test]
    fn the_innermost_line_that_is_no_plumbing_is_the_author() {
        let blamed = blame_in(TEXT).unwrap();
        assert_eq!(blamed.owner, "glommio");
        assert_eq!(blamed.place, "task/raw.rs:100 for corelog-engine runtime/spawn.rs:88");
        assert!(!blamed.is_ours());
        let ours = blame_in(&TEXT.replace("glommio-0.9.0", "misc")).unwrap();
        assert_eq!((ours.owner.as_str(), ours.is_ours()), ("corelog-engine", true));
        assert_eq!(ours.place, "runtime/spawn.rs:88");
        assert_eq!(blame_in("   0: malloc\n   1: main\n"), None);
    }

    #[test]
    fn packages_are_found_wherever_they_lie() {
        let name = |path| owner(path).map(|(name, _)| name);
        assert_eq!(name("./crates/shard/src/shard.rs:1:1").as_deref(), Some("corelog-shard"));
        assert_eq!(name("/x/vendor/bytes-1.12.0/src/bytes.rs:1:1").as_deref(), Some("bytes"));
        assert_eq!(name("/srv/corelog/benches/src/rng.rs:1:1"), None);
        assert_eq!(name("/srv/corelog/benches/micro/append.rs:1:1"), None);
        assert_eq!(name("./nptl/pthread_create.c:442:8"), None);
    }
}
