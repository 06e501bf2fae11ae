//! Whose code made an allocation: the innermost frame that is neither the standard library's nor
//! the allocator's.

use std::backtrace::Backtrace;

/// An allocation's author.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blamed {
    /// The crate, as the compiler writes it: `corelog_storage`, `glommio`.
    pub owner: String,
    /// The innermost function of that crate and, where it is not the engine's, of the engine.
    pub path: String,
}

impl Blamed {
    /// True for the crates of the engine.
    pub fn is_ours(&self) -> bool {
        is_ours(&self.owner)
    }
}

/// The author of the allocation with this backtrace; None where no frame has a name.
pub fn blame(trace: &Backtrace) -> Option<Blamed> {
    blame_in(&trace.to_string())
}

/// The same, from a backtrace's text: `  12: function`, then perhaps `at file:line:column`.
fn blame_in(text: &str) -> Option<Blamed> {
    let frames = text.lines().filter_map(|line| {
        let (number, function) = line.trim().split_once(": ")?;
        number.parse::<u32>().ok()?;
        Some(function)
    });
    let mut named = frames.filter_map(|function| {
        let owner = crate_of(function);
        let is_plumbing = owner.is_empty() || PLUMBING.contains(&owner);
        (!is_plumbing).then_some((owner, function))
    });
    let (owner, function) = named.next()?;
    let owner = owner.to_owned();
    let mut path = short(function);
    if !is_ours(&owner)
        && let Some((_, below)) = named.find(|(owner, _)| is_ours(owner))
    {
        path = format!("{path}, for {}", short(below));
    }
    Some(Blamed { owner, path })
}

/// Crates through which everybody allocates.
const PLUMBING: &[&str] =
    &["alloc", "core", "std", "corelog_bench", "hashbrown", "__rustc", "backtrace"];

fn is_ours(owner: &str) -> bool {
    owner == "corelog" || owner.starts_with("corelog_") && owner != "corelog_bench"
}

/// The first word of a path, behind `<`, `&` and the like: a method belongs to its type's crate.
fn crate_of(function: &str) -> &str {
    let path = function.trim_start_matches(|c: char| !(c.is_alphanumeric() || c == '_'));
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(path.len());
    let (word, rest) = path.split_at(end);
    // A name of C, or an address, has no crate.
    if rest.starts_with("::") { word } else { "" }
}

/// Without type parameters and hashes: `corelog_storage::tail::Tail::push`.
fn short(function: &str) -> String {
    let mut depth = 0;
    let mut short = String::new();
    let trimmed = function.strip_prefix('<').map_or(function, |rest| rest);
    for c in trimmed.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = (depth - 1).max(0),
            _ if depth == 0 => short.push(c),
            _ => {}
        }
    }
    short.replace("::::", "::").replace("::{{closure}}", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "   0: std::backtrace::Backtrace::force_capture
             at /rustc/library/std/src/backtrace.rs:331:18
   1: <corelog_bench::micro::allocator::BenchAlloc as core::alloc::global::GlobalAlloc>::alloc
   2: __rust_alloc
   3: alloc::alloc::alloc
   4: <glommio::task::raw::RawTask<F, R, S>>::allocate
   5: corelog::runtime::spawn::RealSpawn::spawn::<corelog_storage::partition::Inner<P, A>>
   6: corelog_storage::partition::Inner<P,A>::run::{{closure}}
   7: main";

    #[test]
    fn the_innermost_frame_that_is_no_plumbing_is_the_author() {
        let blamed = blame_in(TEXT).unwrap();
        assert_eq!(blamed.owner, "glommio");
        assert!(!blamed.is_ours());
        assert!(blamed.path.contains("RawTask") && blamed.path.contains("corelog::runtime"));
        let ours = TEXT.replace("<glommio::task::raw::RawTask<F, R, S>>::allocate", "malloc");
        let ours = blame_in(&ours).unwrap();
        assert_eq!((ours.owner.as_str(), ours.is_ours()), ("corelog", true));
        assert_eq!(blame_in("   0: malloc\n   1: main\n"), None);
    }

    #[test]
    fn crates_are_found_behind_brackets() {
        assert_eq!(crate_of("<&mut bytes::Bytes as core::fmt::Debug>::fmt"), "mut");
        assert_eq!(crate_of("<bytes::Bytes>::new"), "bytes");
        assert_eq!(crate_of("malloc"), "");
        assert_eq!(crate_of("corelog_io::aligned::new"), "corelog_io");
    }
}
