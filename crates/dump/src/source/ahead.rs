//! Bytes of one file in order, read ahead of their use: several O_DIRECT reads in flight, by threads
//! that do nothing else.
//!
//! One read at a time leaves a device idle between two of them, and reads through the page cache
//! push out what a production server keeps there. Both are avoided here, and whoever asks for the
//! bytes finds them in memory, one copy away. Where the file system has no O_DIRECT the same reads
//! go through the cache.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::fs::{Mode, OFlags};

/// Bytes of one read. Larger ones gain nothing, and smaller ones cost more calls.
pub(crate) const CHUNK: u64 = 1 << 20;
/// Reads in flight.
const THREADS: usize = 4;
/// Chunks in memory, those in flight included: so much memory a file takes, in MiB.
const AHEAD: u64 = 8;
/// A thread only reads into memory that is there.
const STACK: usize = 64 << 10;
/// What O_DIRECT asks of positions, lengths and memory.
const BLOCK: usize = 4096;

/// A stream of chunks from one position on.
#[derive(Debug)]
pub(crate) struct Ahead {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The chunk that is being used.
    current: Option<Chunk>,
    /// Where the next byte comes from.
    position: u64,
}

/// One chunk: what a read brought, from `start` on.
#[derive(Debug)]
struct Chunk {
    start: u64,
    len: usize,
    block: Block,
}

/// Memory that begins at a multiple of `BLOCK`.
#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    start: usize,
}

#[derive(Debug)]
struct Shared {
    direct: Option<File>,
    cached: File,
    len: u64,
    state: Mutex<State>,
    /// Something was read, or there is room to read on.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Position of the next chunk that nobody reads yet.
    next: u64,
    /// Chunks from here on have not been taken.
    taken: u64,
    ready: BTreeMap<u64, io::Result<Chunk>>,
    free: Vec<Block>,
    over: bool,
}

impl Block {
    fn new() -> Block {
        let bytes = vec![0; CHUNK as usize + BLOCK];
        let start = bytes.as_ptr().align_offset(BLOCK);
        Block { bytes, start }
    }

    fn window(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + CHUNK as usize]
    }
}

/// Another description of the same file, with O_DIRECT; `None` where there is no such thing.
fn direct(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from).ok()
}

impl Ahead {
    /// A stream over the first `len` bytes of `file`, beginning at `position`.
    pub(crate) fn new(file: &File, len: u64, position: u64) -> io::Result<Ahead> {
        let next = position / CHUNK * CHUNK;
        let state =
            State { next, taken: next, ready: BTreeMap::new(), free: Vec::new(), over: false };
        let shared = Arc::new(Shared {
            direct: direct(file),
            cached: file.try_clone()?,
            len,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name("read ahead".to_string()).stack_size(STACK);
            threads.push(thread.spawn(move || shared.work())?);
        }
        Ok(Ahead { shared, threads, current: None, position })
    }

    /// Where the next byte comes from.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The next bytes, as many as are at hand and fit; waits for the first. 0 only at the end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let holds = |chunk: &Chunk, at: u64| at < chunk.start + CHUNK;
        if self.current.as_ref().is_none_or(|chunk| !holds(chunk, self.position)) {
            let before = self.current.take();
            self.current = self.shared.take(before, self.position / CHUNK * CHUNK)?;
        }
        let Some(chunk) = &mut self.current else { return Ok(0) };
        let from = (self.position - chunk.start) as usize;
        let at_hand = chunk.len.saturating_sub(from).min(into.len());
        into[..at_hand].copy_from_slice(&chunk.block.window()[from..from + at_hand]);
        self.position += at_hand as u64;
        Ok(at_hand)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // It has no panics of its own to tell.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The chunk at `start`, once it was read; gives `before` back to the readers.
    fn take(&self, before: Option<Chunk>, start: u64) -> io::Result<Option<Chunk>> {
        let mut state = self.lock();
        state.free.extend(before.map(|chunk| chunk.block));
        state.taken = start;
        self.changed.notify_all();
        if start >= self.len {
            return Ok(None);
        }
        loop {
            if let Some(read) = state.ready.remove(&start) {
                return read.map(Some);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// One thread's work: the next chunk, as long as there is room for it.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if state.over || state.next >= self.len {
                return;
            }
            if state.next >= state.taken + AHEAD * CHUNK {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let start = state.next;
            state.next += CHUNK;
            let block = state.free.pop();
            drop(state);
            let read = self.read(block.unwrap_or_else(Block::new), start);
            state = self.lock();
            state.ready.insert(start, read);
            self.changed.notify_all();
        }
    }

    /// Reads the chunk at `start`: fewer bytes only where the file ends.
    fn read(&self, mut block: Block, start: u64) -> io::Result<Chunk> {
        let want = CHUNK.min(self.len - start) as usize;
        let mut len = 0;
        while len < want {
            // A direct read that came short ends inside a block: what follows is no block's start.
            let file = self.direct.as_ref().filter(|_| len % BLOCK == 0).unwrap_or(&self.cached);
            match file.read_at(&mut block.window()[len..], start + len as u64) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A file system may open for O_DIRECT and refuse to read so.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput && len % BLOCK == 0 => {
                    match self.cached.read_at(&mut block.window()[len..], start + len as u64)? {
                        0 => break,
                        n => len += n,
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // Bytes that came to the file after it was opened are not looked at.
        Ok(Chunk { start, len: len.min(want), block })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Temporary;

    #[test]
    fn a_stream_is_the_file_from_any_position_on() {
        let len = 10 * CHUNK as usize + 77;
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
        let file = Temporary::with("ahead", &bytes);
        let file = File::open(&file.0).expect("opened");
        for from in [0, 1, CHUNK as usize - 1, 3 * CHUNK as usize + 5, len - 1, len] {
            let mut ahead = Ahead::new(&file, len as u64, from as u64).expect("threads");
            let mut read = vec![0; len - from];
            let mut filled = 0;
            while filled < read.len() {
                let end = (filled + 300_000).min(read.len());
                let n = ahead.read(&mut read[filled..end]).expect("read");
                assert!(n > 0, "from {from}: {filled}");
                filled += n;
            }
            assert!(read == bytes[from..], "from {from}");
            assert_eq!(ahead.position(), len as u64);
            assert_eq!(ahead.read(&mut [0; 8]).expect("the end"), 0);
        }
    }

    #[test]
    fn one_that_is_dropped_early_ends_its_threads() {
        let file = Temporary::with("ahead-dropped", &vec![3; 20 * CHUNK as usize]);
        let file = File::open(&file.0).expect("opened");
        let mut ahead = Ahead::new(&file, 20 * CHUNK, 0).expect("threads");
        ahead.read(&mut [0; 100]).expect("read");
        let shared = Arc::clone(&ahead.shared);
        drop(ahead);
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    #[test]
    fn a_file_that_has_become_shorter_ends_early() {
        let file = Temporary::with("ahead-cut", &vec![3; 2 * CHUNK as usize]);
        let opened = File::options().write(true).read(true).open(&file.0).expect("opened");
        opened.set_len(CHUNK + 10).expect("cut");
        let mut ahead = Ahead::new(&opened, 2 * CHUNK, 0).expect("threads");
        let mut total = 0;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match ahead.read(&mut buffer).expect("read") {
                0 => break,
                n => total += n as u64,
            }
        }
        assert_eq!(total, CHUNK + 10);
    }
}
