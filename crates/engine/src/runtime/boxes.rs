//! Buffers in boxes that readers and the runtime share. The boxes go round, so that a shard that
//! appends steadily allocates none.

use std::cell::RefCell;
use std::rc::Rc;

use corelog_io::BLOCK;

use super::budget::Charge;

/// Boxes that wait for their next use, at most, and blanks: 512 KiB together, beyond the budget.
const SPARES_MAX: usize = 64;

/// A runtime's own buffer: whole blocks of memory with one owner.
pub(super) trait Memory: 'static {
    /// One of `len` bytes, a multiple of [`BLOCK`]. Call it on an executor's thread. Contents are
    /// whatever the memory held before.
    fn alloc(len: usize) -> Self;

    /// Its bytes.
    fn bytes(&self) -> &[u8];

    /// Its bytes, to write to.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Shows only the first `len` bytes from here on.
    fn trim(&mut self, len: usize);
}

/// Boxes between two uses, local to their shard. A box cannot be empty, so it holds one block then:
/// one that comes back with more gets a blank for it, and puts that down again when it leaves with
/// more. Nothing is asked of the runtime when a box comes back, which may be outside of its executor.
pub(super) struct Spares<M> {
    boxes: RefCell<Vec<Rc<Boxed<M>>>>,
    blanks: RefCell<Vec<M>>,
}

/// A buffer, and what the shard is owed for it.
struct Boxed<M> {
    /// Behind a count of its own, as the runtimes write from no other form.
    data: Rc<M>,
    /// None while it is a spare.
    lent: Option<Lent<M>>,
}

struct Lent<M> {
    /// Bytes of the buffer before it was trimmed.
    capacity: usize,
    charge: Charge,
    home: Rc<Spares<M>>,
}

/// A box in use. The last clone gives the memory back, and the box.
pub(super) struct Shared<M: Memory>(Rc<Boxed<M>>);

impl<M: Memory> Clone for Shared<M> {
    fn clone(&self) -> Self {
        Shared(Rc::clone(&self.0))
    }
}

impl<M: Memory> Spares<M> {
    pub(super) fn new() -> Rc<Spares<M>> {
        Rc::new(Spares { boxes: RefCell::default(), blanks: RefCell::default() })
    }

    /// A box with a buffer of `len` bytes, charged to `charge`. Where the pool has no block of that
    /// size the memory comes from the global allocator: correct, slower, and within the same budget.
    pub(super) fn lend(self: &Rc<Self>, len: usize, charge: Charge) -> Shared<M> {
        let spare = self.boxes.borrow_mut().pop();
        let boxed = match spare {
            Some(spare) if len == BLOCK => spare,
            Some(spare) => self.refilled(spare, M::alloc(len)),
            None => {
                if len != BLOCK {
                    self.put_down(M::alloc(BLOCK));
                }
                Rc::new(Boxed { data: Rc::new(M::alloc(len)), lent: None })
            }
        };
        self.lent(boxed, len, charge)
    }

    /// A box with `data` of `len` bytes, charged to `charge`.
    pub(super) fn boxed(self: &Rc<Self>, data: M, charge: Charge) -> Shared<M> {
        let (len, spare) = (data.bytes().len(), self.boxes.borrow_mut().pop());
        let boxed = match spare {
            Some(spare) => self.refilled(spare, data),
            None => Rc::new(Boxed { data: Rc::new(data), lent: None }),
        };
        self.lent(boxed, len, charge)
    }

    fn refilled(&self, mut spare: Rc<Boxed<M>>, data: M) -> Rc<Boxed<M>> {
        let boxed = Rc::get_mut(&mut spare).expect("nobody shares a spare");
        let blank = Rc::get_mut(&mut boxed.data).expect("nobody shares a spare's buffer");
        self.put_down(std::mem::replace(blank, data));
        spare
    }

    fn lent(self: &Rc<Self>, mut boxed: Rc<Boxed<M>>, len: usize, charge: Charge) -> Shared<M> {
        let lent = Lent { capacity: len, charge, home: Rc::clone(self) };
        Rc::get_mut(&mut boxed).expect("nobody shares a spare").lent = Some(lent);
        Shared(boxed)
    }

    fn put_down(&self, blank: M) {
        let mut blanks = self.blanks.borrow_mut();
        if blanks.len() < SPARES_MAX {
            blanks.push(blank);
        }
    }

    /// Whether a box whose buffer is `data` may become a spare: then `data` is one block.
    fn fits(&self, data: &mut M, capacity: usize) -> bool {
        if self.boxes.borrow().len() >= SPARES_MAX {
            return false;
        }
        if capacity == BLOCK && data.bytes().len() == BLOCK {
            return true;
        }
        let Some(blank) = self.blanks.borrow_mut().pop() else { return false };
        *data = blank;
        true
    }
}

impl<M: Memory> Shared<M> {
    /// The bytes. They stay in their place as long as `self` or a clone of it.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.data.bytes()
    }

    /// The buffer, in the form in which the runtimes write it.
    pub(super) fn data(&self) -> &Rc<M> {
        &self.0.data
    }

    /// The buffer, while nobody shares it: before it is frozen.
    pub(super) fn alone(&mut self) -> &mut M {
        let boxed = Rc::get_mut(&mut self.0).expect("a writable buffer has one owner");
        Rc::get_mut(&mut boxed.data).expect("no write of a writable buffer is under way")
    }

    /// Bytes of the budget that it occupies.
    pub(super) fn charged(&self) -> usize {
        self.0.lent.as_ref().map_or(0, |lent| lent.charge.bytes())
    }
}

impl<M: Memory> Drop for Shared<M> {
    fn drop(&mut self) {
        let Some(boxed) = Rc::get_mut(&mut self.0) else { return };
        let Some(Lent { capacity, charge, home }) = boxed.lent.take() else { return };
        // The runtime may still have the buffer of a write that nobody waits for: that box is dropped.
        if let Some(data) = Rc::get_mut(&mut boxed.data)
            && home.fits(data, capacity)
        {
            home.boxes.borrow_mut().push(Rc::clone(&self.0));
        }
        // Last, as it may wake whoever waits for room.
        drop(charge);
    }
}
