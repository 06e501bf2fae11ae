//! What is kept for the segments of living partitions, up to a limit: the least recently used goes.

use std::collections::HashMap;
use std::rc::Rc;

/// The life of a partition, and the first offset of one of its segments. Not a path: a path can
/// come to name another file when a partition of the same id begins anew.
pub(super) type Key = (u64, u64);

/// Values by [`Key`], at most `limit` of them.
pub(super) struct ByLife<T> {
    kept: HashMap<Key, (Rc<T>, u64)>,
    clock: u64,
    limit: usize,
}

impl<T> ByLife<T> {
    pub(super) fn new(limit: usize) -> Self {
        ByLife { kept: HashMap::new(), clock: 0, limit: limit.max(1) }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn get(&mut self, key: Key) -> Option<Rc<T>> {
        self.clock += 1;
        let (value, used) = self.kept.get_mut(&key)?;
        *used = self.clock;
        Some(Rc::clone(value))
    }

    pub(super) fn put(&mut self, key: Key, value: &Rc<T>) {
        while self.kept.len() >= self.limit && !self.kept.contains_key(&key) {
            let oldest = self.kept.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(key, _)| *key) else { break };
            self.kept.remove(&oldest);
        }
        self.clock += 1;
        self.kept.insert(key, (Rc::clone(value), self.clock));
    }

    /// Gives up the least recently used of those that nobody else holds.
    pub(super) fn take_idle(&mut self) -> Option<T> {
        let idle = self.kept.iter().filter(|(_, (value, _))| Rc::strong_count(value) == 1);
        let key = *idle.min_by_key(|(_, (_, used))| *used)?.0;
        self.kept.remove(&key).and_then(|(value, _)| Rc::into_inner(value))
    }

    pub(super) fn retain(&mut self, keep: impl Fn(Key) -> bool) {
        self.kept.retain(|key, _| keep(*key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes() {
        let mut kept = ByLife::new(2);
        for n in 0..2 {
            kept.put((1, n), &Rc::new(n));
        }
        assert!(kept.get((1, 0)).is_some(), "used: it stays");
        kept.put((2, 0), &Rc::new(9));
        assert_eq!((kept.len(), kept.get((1, 1))), (2, None));
        kept.put((2, 0), &Rc::new(10));
        assert_eq!(kept.get((1, 0)).as_deref(), Some(&0), "put again, it pushes nothing out");
        kept.retain(|(life, _)| life != 2);
        assert_eq!((kept.len(), kept.get((2, 0))), (1, None));
    }

    #[test]
    fn what_somebody_holds_is_not_idle() {
        let mut kept = ByLife::new(3);
        for n in 0..3 {
            kept.put((1, n), &Rc::new(n));
        }
        let held = kept.get((1, 0));
        assert!(kept.get((1, 1)).is_some(), "used last");
        assert_eq!(
            (kept.take_idle(), kept.take_idle(), kept.take_idle()),
            (Some(2), Some(1), None)
        );
        drop(held);
        assert_eq!(kept.take_idle(), Some(0));
    }
}
