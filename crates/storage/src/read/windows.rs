//! The windows that a shard keeps, and which of them goes first.
//!
//! A window that was read ahead is kept until its reader comes, and goes after it like any other:
//! the oldest first, as readers that follow one another want the newest. A reader that never comes
//! must not hold its windows for ever: an unread one goes when many came after it.

use std::collections::BTreeMap;
use std::rc::Rc;

use corelog_io::SharedBytes;

use super::window::Window;

/// An unread window is given up when this many came after it.
const UNREAD_PATIENCE: u64 = 64;
/// Windows looked at in search of one that holds a position: those that begin last before it.
/// Windows of one segment overlap only where polls began at odd places.
const LOOKED_AT: usize = 8;

/// Where a window begins: life of the partition, first offset of the segment, position.
type Place = (u64, u64, u64);

/// The windows of all partitions of a shard.
pub(crate) struct Windows<S> {
    kept: BTreeMap<Place, Kept<S>>,
    /// By number, the oldest first.
    used: BTreeMap<u64, Place>,
    unread: BTreeMap<u64, Place>,
    next: u64,
    bytes: usize,
    unread_bytes: usize,
}

struct Kept<S> {
    window: Rc<Window<S>>,
    number: u64,
    is_used: bool,
}

impl<S: SharedBytes> Windows<S> {
    pub(crate) fn new() -> Self {
        let (used, unread) = (BTreeMap::new(), BTreeMap::new());
        Windows { kept: BTreeMap::new(), used, unread, next: 0, bytes: 0, unread_bytes: 0 }
    }

    /// Memory of the windows, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of those that were read ahead and not used yet, bytes.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.unread_bytes
    }

    /// The window in which a batch at `position` is looked for.
    pub(crate) fn find(&self, life: u64, segment: u64, position: u64) -> Option<&Rc<Window<S>>> {
        let before = self.kept.range((life, segment, 0)..=(life, segment, position));
        let mut windows = before.rev().take(LOOKED_AT).map(|(_, kept)| &kept.window);
        windows.find(|window| position < window.to())
    }

    /// Somebody reads in `window`.
    pub(crate) fn touch(&mut self, life: u64, segment: u64, window: &Rc<Window<S>>) {
        let place = (life, segment, window.from());
        let Some(kept) = self.kept.get_mut(&place) else { return };
        if kept.is_used || !Rc::ptr_eq(&kept.window, window) {
            return;
        }
        kept.is_used = true;
        self.unread.remove(&kept.number);
        self.used.insert(kept.number, place);
        self.unread_bytes -= window.cost();
    }

    /// Keeps a window, in place of one that began there; that one is given back.
    pub(crate) fn insert(
        &mut self,
        life: u64,
        segment: u64,
        window: &Rc<Window<S>>,
        is_used: bool,
    ) -> Option<Rc<Window<S>>> {
        let place = (life, segment, window.from());
        let before = self.take(place);
        let number = self.next;
        self.next += 1;
        self.bytes += window.cost();
        if is_used {
            self.used.insert(number, place);
        } else {
            self.unread.insert(number, place);
            self.unread_bytes += window.cost();
        }
        self.kept.insert(place, Kept { window: Rc::clone(window), number, is_used });
        before
    }

    /// Gives up `window`, where it is still kept.
    pub(crate) fn remove(
        &mut self,
        life: u64,
        segment: u64,
        window: &Rc<Window<S>>,
    ) -> Option<Rc<Window<S>>> {
        let place = (life, segment, window.from());
        let kept = self.kept.get(&place)?;
        if Rc::ptr_eq(&kept.window, window) { self.take(place) } else { None }
    }

    /// Gives up the window that is worth least.
    pub(crate) fn evict(&mut self) -> Option<Rc<Window<S>>> {
        let unread = self.unread.first_key_value();
        let old = unread.filter(|(number, _)| self.next - **number > UNREAD_PATIENCE);
        let place = old.or_else(|| self.used.first_key_value()).or(unread).map(|(_, place)| *place);
        self.take(place?)
    }

    /// Gives up the windows of a life in segments below `first`.
    pub(crate) fn trim(&mut self, life: u64, first: u64) -> Vec<Rc<Window<S>>> {
        let below = self.kept.range((life, 0, 0)..(life, first, 0));
        let places: Vec<Place> = below.map(|(place, _)| *place).collect();
        places.into_iter().filter_map(|place| self.take(place)).collect()
    }

    fn take(&mut self, place: Place) -> Option<Rc<Window<S>>> {
        let Kept { window, number, is_used } = self.kept.remove(&place)?;
        self.bytes -= window.cost();
        if is_used {
            self.used.remove(&number);
        } else {
            self.unread.remove(&number);
            self.unread_bytes -= window.cost();
        }
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::plan::Cut;

    type Plain = Windows<Rc<[u8]>>;

    fn add(windows: &mut Plain, life: u64, from: u64, to: u64, is_used: bool) {
        let window = Rc::new(Window::new(Cut { from, to, whole: true }, u64::MAX));
        windows.insert(life, 0, &window, is_used);
    }

    fn evicted(windows: &mut Plain) -> Option<u64> {
        windows.evict().map(|window| window.from())
    }

    #[test]
    fn the_nearest_window_that_reaches_a_position_is_found() {
        let mut windows = Plain::new();
        add(&mut windows, 1, 0, 100_000, true);
        add(&mut windows, 1, 10_000, 20_000, true);
        add(&mut windows, 2, 0, 5_000, true);
        // life, position -> where the window begins
        for (life, position, from) in [
            (1, 0, Some(0)),
            (1, 10_000, Some(10_000)),
            (1, 19_999, Some(10_000)),
            (1, 20_000, Some(0)),
            (1, 100_000, None),
            (2, 4_999, Some(0)),
            (2, 5_000, None),
            (3, 0, None),
        ] {
            let found = windows.find(life, 0, position).map(|window| window.from());
            assert_eq!(found, from, "life {life} at {position}");
        }
        assert!(windows.find(1, 7, 0).is_none(), "another segment");
    }

    #[test]
    fn used_windows_go_before_unread_ones_and_each_kind_oldest_first() {
        let mut windows = Plain::new();
        add(&mut windows, 1, 0, 4_096, false);
        add(&mut windows, 1, 4_096, 8_192, false);
        add(&mut windows, 1, 8_192, 12_288, true);
        assert_eq!((windows.bytes(), windows.unread_bytes()), (12_288, 8_192));
        let second = Rc::clone(windows.find(1, 0, 4_096).unwrap());
        windows.touch(1, 0, &second);
        windows.touch(1, 0, &second);
        assert_eq!(windows.unread_bytes(), 4_096);
        assert_eq!(evicted(&mut windows), Some(4_096));
        assert_eq!(evicted(&mut windows), Some(8_192));
        assert_eq!(evicted(&mut windows), Some(0), "unread ones only where nothing else is left");
        assert_eq!((windows.bytes(), windows.unread_bytes(), evicted(&mut windows)), (0, 0, None));
    }

    #[test]
    fn a_window_whose_reader_never_comes_is_given_up() {
        let mut windows = Plain::new();
        add(&mut windows, 9, 0, 4_096, false);
        for n in 1..UNREAD_PATIENCE {
            add(&mut windows, 1, n << 12, (n + 1) << 12, true);
            assert_eq!(evicted(&mut windows), Some(n << 12), "it is waited for");
        }
        add(&mut windows, 1, 0, 4_096, true);
        assert_eq!(windows.evict().map(|w| w.from()), Some(0));
        assert!(windows.find(9, 0, 0).is_none(), "not any longer");
    }

    #[test]
    fn a_life_is_trimmed_alone_and_one_place_holds_one_window() {
        let mut windows = Plain::new();
        let cut = Cut { from: 0, to: 4_096, whole: true };
        for (life, segment) in [(1, 0), (1, 10), (1, 20), (2, 0)] {
            windows.insert(life, segment, &Rc::new(Window::new(cut, u64::MAX)), false);
        }
        let again = Rc::new(Window::new(Cut { to: 8_192, ..cut }, u64::MAX));
        let before = windows.insert(2, 0, &again, true).unwrap();
        assert_eq!((before.to(), windows.bytes()), (4_096, 3 * 4_096 + 8_192));
        assert!(windows.remove(2, 0, &before).is_none(), "not the one that is kept");
        assert_eq!(windows.trim(1, 20).len(), 2);
        assert!(windows.find(1, 20, 0).is_some() && windows.find(2, 0, 0).is_some());
        assert_eq!(windows.trim(1, u64::MAX).len(), 1);
        assert!(windows.remove(2, 0, &again).is_some());
        assert_eq!((windows.bytes(), windows.unread_bytes()), (0, 0));
    }
}
