//! Which CPU a shard runs on: a pure decision from what the process may use.

/// Where a shard's thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On this CPU only.
    Pinned(usize),
    /// Wherever the system puts it.
    Anywhere,
}

impl Place {
    /// The CPU, where there is one.
    pub(crate) fn cpu(self) -> Option<usize> {
        match self {
            Place::Pinned(cpu) => Some(cpu),
            Place::Anywhere => None,
        }
    }
}

/// Places for `shards` shards on the CPUs the process is allowed (`sched_getaffinity`, which knows
/// cpusets and taskset; "all CPUs that are online" does not).
///
/// Pinned, one CPU each, where every shard gets one of its own and one is not all there is: on a
/// single CPU pinning gains nothing, and shards that share a CPU must be able to move.
pub(crate) fn places(shards: usize, pin: bool, allowed: &[usize]) -> Vec<Place> {
    if pin && allowed.len() > 1 && shards <= allowed.len() {
        allowed.iter().take(shards).map(|cpu| Place::Pinned(*cpu)).collect()
    } else {
        vec![Place::Anywhere; shards]
    }
}

/// The CPUs for a shard's io-wq workers (they do fsync): all allowed ones but its own. Empty: leave
/// it to the kernel. A worker that shares the shard's CPU waits until the shard parks.
pub(crate) fn worker_cpus(place: Place, allowed: &[usize]) -> Vec<usize> {
    match place {
        Place::Anywhere => Vec::new(),
        Place::Pinned(own) => allowed.iter().copied().filter(|cpu| *cpu != own).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::Place::{Anywhere, Pinned};
    use super::*;

    #[test]
    fn table() {
        let cases: [(usize, bool, &[usize], Vec<Place>); 6] = [
            (1, true, &[0], vec![Anywhere]),
            (2, true, &[3], vec![Anywhere, Anywhere]),
            (1, true, &[2, 5], vec![Pinned(2)]),
            (2, true, &[2, 5], vec![Pinned(2), Pinned(5)]),
            (3, true, &[2, 5], vec![Anywhere; 3]),
            (2, false, &[2, 5], vec![Anywhere; 2]),
        ];
        for (shards, pin, allowed, want) in cases {
            assert_eq!(places(shards, pin, allowed), want, "{shards} {pin} {allowed:?}");
        }
    }

    #[test]
    fn workers_stay_off_the_shard() {
        assert_eq!(worker_cpus(Pinned(5), &[2, 5, 7]), [2, 7]);
        assert!(worker_cpus(Anywhere, &[2, 5]).is_empty());
    }
}
