//! Whether the process may open as many files as a run needs; said before it, not in its middle.

use corelog::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::run::Settings;

/// Of shards beside their files, the catalog, rings of the ceiling and of those who read back.
const OTHERS: u64 = 200;

/// Raises the soft limit on open files where a run needs more, up to the hard one; refuses a run
/// that needs more than that.
pub(crate) fn make_room(settings: &Settings) -> Result<(), String> {
    let old = getrlimit(Resource::Nofile);
    let Some(wanted) = raised(needed(settings), old.current, old.maximum)? else { return Ok(()) };
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: old.maximum })
        .map_err(|error| format!("cannot raise the limit of open files to {wanted}: {error}"))
}

/// Files that the engine keeps open at most, and what is open beside them.
fn needed(settings: &Settings) -> u64 {
    let Limits { active_files, open_files, .. } = Limits::default();
    let shards = u64::from(settings.shards);
    // Each partition that is appended to has one, until they are too many.
    let appending = settings.all_partitions().min(shards * active_files as u64);
    appending + shards * open_files as u64 + OTHERS
}

/// The soft limit that is wanted, if the one there is too low. None is no limit.
fn raised(needed: u64, soft: Option<u64>, hard: Option<u64>) -> Result<Option<u64>, String> {
    if soft.is_none_or(|soft| soft >= needed) {
        return Ok(None);
    }
    match hard {
        Some(hard) if hard < needed => Err(format!(
            "the run needs {needed} open files, and the limit is {hard}: raise it (ulimit -Hn, \
             LimitNOFILE), or lower --partitions or --shards"
        )),
        _ => Ok(Some(needed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_bounded_by_the_engines_limits() {
        let with =
            |shards, partitions| needed(&Settings { shards, partitions, ..Settings::sample() });
        let durable =
            Settings::sample().all_partitions() - u64::from(Settings::sample().partitions);
        assert_eq!(with(1, 4), 4 + durable + 256 + OTHERS);
        assert_eq!(with(1, 10_000), 1024 + 256 + OTHERS);
        assert_eq!(with(16, 10_000), 10_000 + durable + 16 * 256 + OTHERS);
    }

    #[test]
    fn the_soft_limit_is_raised_and_the_hard_one_is_not_passed() {
        assert_eq!(raised(1480, None, None), Ok(None));
        assert_eq!(raised(1480, Some(1480), Some(1480)), Ok(None));
        assert_eq!(raised(1480, Some(1024), Some(1480)), Ok(Some(1480)));
        assert_eq!(raised(1480, Some(1024), None), Ok(Some(1480)));
        let error = raised(1480, Some(1024), Some(1479)).unwrap_err();
        assert!(error.contains("1480") && error.contains("the limit is 1479"), "{error}");
    }
}
