//! The lease table over plain memory: no glommio, so that Miri can run it (with
//! `-Zmiri-ignore-leaks`, as one test is about a leak).

use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;

use super::*;

/// Counts the buffers that are alive, on the thread that may drop them.
#[derive(Clone)]
struct Buffer {
    bytes: Rc<Counted>,
}

struct Counted {
    bytes: Vec<u8>,
    alive: Rc<Cell<usize>>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes.bytes
    }
}

// SAFETY: the vector is never touched again, and `Rc` keeps it in its place.
unsafe impl Lendable for Buffer {}

fn buffer(alive: &Rc<Cell<usize>>, bytes: Vec<u8>) -> Buffer {
    alive.set(alive.get() + 1);
    Buffer { bytes: Rc::new(Counted { bytes, alive: Rc::clone(alive) }) }
}

#[test]
fn a_view_is_the_memory_itself_and_keeps_it_alive() {
    let alive = Rc::new(Cell::new(0));
    let leases = Leases::new(4, 1 << 20);
    let home = buffer(&alive, vec![7; 100]);
    let address = home.as_ref().as_ptr();
    let lent = leases.lend(&home, 10..20);
    assert_eq!(lent.as_ptr(), address.wrapping_add(10), "not a copy");
    drop(home);
    assert_eq!(alive.get(), 1, "the table keeps it");
    let part = lent.slice(2..4);
    drop(lent);
    assert_eq!(leases.reclaim(), 0, "a clone is still out");
    drop(part);
    assert_eq!(leases.out(), 1, "not before the shard looks");
    assert_eq!(leases.reclaim(), 1);
    assert_eq!((alive.get(), leases.out(), leases.bytes_out()), (0, 0, 0));
}

#[test]
fn over_the_slots_it_copies() {
    let alive = Rc::new(Cell::new(0));
    let leases = Leases::new(2, 1 << 20);
    let home = buffer(&alive, vec![1; 64]);
    let address = home.as_ref().as_ptr();
    let lent: Vec<_> = (0..3).map(|_| leases.lend(&home, 0..64)).collect();
    let views = lent.iter().filter(|bytes| bytes.as_ptr() == address).count();
    assert_eq!((views, leases.copied()), (2, 1));
    assert!(lent.iter().all(|bytes| bytes.as_ref() == [1; 64]));
    drop(lent);
    assert_eq!(leases.lend(&home, 0..64).as_ptr(), address, "lending reclaims first");
}

#[test]
fn over_the_bytes_it_copies_and_a_buffer_lent_twice_counts_once() {
    let alive = Rc::new(Cell::new(0));
    let leases = Leases::new(8, 100);
    let (one, two) = (buffer(&alive, vec![1; 60]), buffer(&alive, vec![2; 60]));
    let first = leases.lend(&one, 0..60);
    let again = leases.lend(&one, 0..1);
    assert_eq!(leases.bytes_out(), 60);
    let other = leases.lend(&two, 0..60);
    assert_eq!((leases.copied(), leases.out()), (1, 2));
    assert_eq!(other.as_ref(), [2; 60]);
    drop(first);
    leases.reclaim();
    assert_eq!(leases.bytes_out(), 60, "still pinned by the second lease");
    drop(again);
    leases.reclaim();
    assert_eq!(leases.bytes_out(), 0);
    assert_eq!(leases.lend(&two, 0..60).as_ptr(), two.as_ref().as_ptr());
}

#[test]
fn nothing_is_lent_for_nothing() {
    let alive = Rc::new(Cell::new(0));
    let leases = Leases::new(1, 1 << 20);
    let home = buffer(&alive, vec![0; 8]);
    assert!(leases.lend(&home, 3..3).is_empty());
    assert_eq!(leases.out(), 0);
}

#[test]
fn what_is_out_when_the_shard_ends_is_leaked_never_freed() {
    static OUT: std::sync::Mutex<Option<Bytes>> = std::sync::Mutex::new(None);
    thread::spawn(|| {
        let alive = Rc::new(Cell::new(0));
        let leases = Leases::new(4, 1 << 20);
        let (kept, returned) = (buffer(&alive, vec![5; 32]), buffer(&alive, vec![6; 32]));
        *OUT.lock().expect("no panic") = Some(leases.lend(&kept, 0..32));
        drop(leases.lend(&returned, 0..32));
        drop((kept, returned));
        drop(leases);
        assert_eq!(alive.get(), 1, "the returned one was freed, the other was not");
    })
    .join()
    .expect("the shard's thread ends well");
    let late = OUT.lock().expect("no panic").take().expect("it was lent");
    assert_eq!(late.as_ref(), [5; 32], "readable after its shard has ended");
    drop(late);
}

/// Leases come back from four threads at once while the shard lends: none is lost, none comes back
/// twice, and no byte is seen to change while it is lent.
#[test]
fn returns_from_many_threads() {
    let rounds: u32 = if cfg!(miri) { 200 } else { 1_000_000 };
    let alive = Rc::new(Cell::new(0));
    let leases = Leases::new(256, 1 << 20);
    let homes: Vec<_> = (0..16).map(|n| buffer(&alive, vec![n as u8; 64])).collect();
    let bad = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (send, receive) = mpsc::sync_channel::<(u8, Bytes)>(64);
            let bad = Arc::clone(&bad);
            let thread = thread::spawn(move || {
                for (want, bytes) in receive {
                    if bytes.iter().any(|byte| *byte != want) {
                        bad.store(true, Ordering::Relaxed);
                    }
                }
            });
            (send, thread)
        })
        .collect();
    for round in 0..rounds {
        let home = round as usize % homes.len();
        let bytes = leases.lend(&homes[home], 0..64);
        workers[round as usize % workers.len()].0.send((home as u8, bytes)).expect("it listens");
    }
    for (send, thread) in workers {
        drop(send);
        thread.join().expect("a reader does not panic");
    }
    leases.reclaim();
    assert!(!bad.load(Ordering::Relaxed), "a lent byte changed");
    assert_eq!((leases.out(), leases.bytes_out()), (0, 0));
    assert!(leases.copied() < u64::from(rounds) / 2, "the table was the usual way");
    drop(homes);
    assert_eq!(alive.get(), 0);
}
