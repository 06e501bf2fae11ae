//! Things with an id and a name, both unique among their like. Ids are the lowest free ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use corelog_format::Identifier;

/// What stands under an id and a name.
pub(super) trait HasName {
    fn name(&self) -> &Arc<str>;
}

#[derive(Debug)]
pub(super) struct Named<T> {
    by_id: BTreeMap<u32, T>,
    ids: HashMap<Arc<str>, u32>,
    /// Ids below `next` that are free.
    gaps: BTreeSet<u32>,
    /// One more than the highest id.
    next: u32,
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named { by_id: BTreeMap::new(), ids: HashMap::new(), gaps: BTreeSet::new(), next: 0 }
    }
}

impl<T: HasName> Named<T> {
    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.by_id.get_mut(&id)
    }

    /// The id of what `identifier` means; a name of digits is a name.
    pub(super) fn find(&self, identifier: Identifier<'_>) -> Option<u32> {
        match identifier {
            Identifier::Numeric(id) => self.by_id.contains_key(&id).then_some(id),
            Identifier::String(name) => self.ids.get(name.as_str()).copied(),
        }
    }

    pub(super) fn id_of(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    pub(super) fn lowest_free(&self) -> u32 {
        self.gaps.first().copied().unwrap_or(self.next)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.by_id.iter().map(|(id, item)| (*id, item))
    }

    /// Puts `item` under a free id. False, with nothing changed, where its name is taken.
    pub(super) fn insert(&mut self, id: u32, item: T) -> bool {
        if self.ids.contains_key(item.name()) {
            return false;
        }
        self.ids.insert(Arc::clone(item.name()), id);
        if id >= self.next {
            self.gaps.extend(self.next..id);
            self.next = id + 1;
        } else {
            self.gaps.remove(&id);
        }
        let old = self.by_id.insert(id, item);
        debug_assert!(old.is_none(), "{id} is taken");
        true
    }

    /// Changes what stands under `id`, its name too. False, with nothing changed, where there is
    /// nothing or the new name is another one's.
    pub(super) fn change(&mut self, id: u32, name: &Arc<str>, change: impl FnOnce(&mut T)) -> bool {
        if self.ids.get(name).is_some_and(|other| *other != id) {
            return false;
        }
        let Some(item) = self.by_id.get_mut(&id) else { return false };
        self.ids.remove(item.name());
        change(item);
        debug_assert_eq!(item.name(), name);
        self.ids.insert(Arc::clone(name), id);
        true
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let item = self.by_id.remove(&id)?;
        self.ids.remove(item.name());
        self.gaps.insert(id);
        while self.next.checked_sub(1).is_some_and(|last| self.gaps.remove(&last)) {
            self.next -= 1;
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use corelog_format::Name;

    use super::*;

    struct Item(Arc<str>);

    impl HasName for Item {
        fn name(&self) -> &Arc<str> {
            &self.0
        }
    }

    fn insert(named: &mut Named<Item>, id: u32, name: &str) -> bool {
        named.insert(id, Item(name.into()))
    }

    #[test]
    fn the_lowest_free_id_is_given_again() {
        let mut named = Named::default();
        for name in ["a", "b", "c", "d"] {
            let id = named.lowest_free();
            assert!(insert(&mut named, id, name));
        }
        assert_eq!(named.lowest_free(), 4);
        named.remove(1);
        named.remove(2);
        assert_eq!(named.lowest_free(), 1);
        assert!(insert(&mut named, 1, "e"));
        assert_eq!(named.lowest_free(), 2);
        named.remove(3);
        assert_eq!(named.lowest_free(), 2);
        for id in [0, 1] {
            named.remove(id);
        }
        assert_eq!((named.lowest_free(), named.len(), named.gaps.len()), (0, 0, 0));
        assert!(insert(&mut named, 9, "far"));
        assert_eq!(named.lowest_free(), 0);
    }

    #[test]
    fn names_are_unique_and_follow_what_they_name() {
        let mut named = Named::default();
        assert!(insert(&mut named, 0, "7"));
        assert!(insert(&mut named, 7, "zero"));
        assert!(!insert(&mut named, 1, "7"));
        let by_name =
            |named: &Named<Item>, name| named.find(Identifier::String(Name::new(name).unwrap()));
        assert_eq!(by_name(&named, "7"), Some(0));
        assert_eq!(named.find(Identifier::Numeric(7)), Some(7));
        assert_eq!(named.find(Identifier::Numeric(1)), None);
        let rename = |named: &mut Named<Item>, id, to: &str| {
            let name: Arc<str> = to.into();
            named.change(id, &Arc::clone(&name), |item| item.0 = name)
        };
        assert!(!rename(&mut named, 0, "zero"));
        assert!(rename(&mut named, 0, "7"), "its own name");
        assert!(rename(&mut named, 0, "eight"));
        assert!(!rename(&mut named, 5, "five"));
        assert_eq!((by_name(&named, "7"), by_name(&named, "eight")), (None, Some(0)));
        named.remove(0);
        assert_eq!(by_name(&named, "eight"), None);
        assert!(insert(&mut named, 3, "eight"));
    }
}
