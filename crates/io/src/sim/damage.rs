//! What tests do to files behind the program's back: look, damage, plant. At once, durably, and
//! outside virtual time.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::content::Content;
use super::disk::SimDisk;
use super::fault::errno;
use super::tree::Node;

impl SimDisk {
    /// All bytes of a file as readers see them.
    pub fn contents(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        self.with_file(path.as_ref(), |content| content.bytes())
    }

    /// The bytes of a file that no power cut could take, were its name durable.
    pub fn durable_contents(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        self.with_file(path.as_ref(), |content| content.durable_bytes())
    }

    /// Every file, sorted by path.
    pub fn files(&self) -> Vec<PathBuf> {
        let state = self.inner.state.borrow();
        state.tree.files().into_iter().map(|(path, _)| path).collect()
    }

    /// Whether a file, directory or link is there.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.inner.state.borrow().tree.find(path.as_ref()).is_ok()
    }

    /// Puts a file in place, with the directories above it; replaces one that is there (for who has
    /// it open, too).
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let path = path.as_ref();
        if self.exists(path) {
            self.with_file(path, |content| content.replace(bytes))?;
            self.inner.state.borrow_mut().recount();
            return Ok(());
        }
        let mut state = self.inner.state.borrow_mut();
        let mut content = Content::default();
        content.replace(bytes);
        state.tree.plant(path, Node::File(content))?;
        state.recount();
        Ok(())
    }

    /// Puts a symbolic link in place. It is never followed, so it needs no target.
    pub fn put_symlink(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.inner.state.borrow_mut().tree.plant(path.as_ref(), Node::Link).map(|_| ())
    }

    /// Takes a name away.
    pub fn delete(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut state = self.inner.state.borrow_mut();
        let ino = state.tree.uproot(path.as_ref())?;
        state.unlinked(ino);
        state.recount();
        Ok(())
    }

    /// Turns one bit over, in what readers see and in every version a power cut could choose.
    pub fn flip_bit(&self, path: impl AsRef<Path>, byte: u64, bit: u8) -> io::Result<()> {
        assert!(bit < 8, "a byte has no bit {bit}");
        self.change(path.as_ref(), byte..byte + 1, |_, old| old ^ (1 << bit))
    }

    /// Zeroes a range of bytes.
    pub fn zero(&self, path: impl AsRef<Path>, range: Range<u64>) -> io::Result<()> {
        self.change(path.as_ref(), range, |_, _| 0)
    }

    /// Overwrites bytes; the file does not grow.
    pub fn overwrite(&self, path: impl AsRef<Path>, at: u64, bytes: &[u8]) -> io::Result<()> {
        let range = at..at + bytes.len() as u64;
        self.change(path.as_ref(), range, |position, _| bytes[(position - at) as usize])
    }

    /// Cuts a file, or makes it longer with zeros. What was un-synced in it counts as synced.
    pub fn truncate(&self, path: impl AsRef<Path>, len: u64) -> io::Result<()> {
        self.with_file(path.as_ref(), |content| {
            let mut bytes = content.bytes();
            bytes.resize(usize::try_from(len).expect("a simulated file fits in memory"), 0);
            content.replace(&bytes);
        })?;
        self.inner.state.borrow_mut().recount();
        Ok(())
    }

    fn change(&self, path: &Path, range: Range<u64>, to: impl Fn(u64, u8) -> u8) -> io::Result<()> {
        self.with_file(path, |content| {
            assert!(
                range.end <= content.len(),
                "{}: bytes {range:?} of a file of {}",
                path.display(),
                content.len()
            );
            for position in range {
                content.damage(position, |old| to(position, old));
            }
        })?;
        // A hole has a block now.
        self.inner.state.borrow_mut().recount();
        Ok(())
    }

    fn with_file<T>(&self, path: &Path, look: impl FnOnce(&mut Content) -> T) -> io::Result<T> {
        let mut state = self.inner.state.borrow_mut();
        let ino = state.tree.find(path)?;
        match state.tree.node(ino) {
            Some(Node::File(_)) => Ok(look(state.tree.content_mut(ino))),
            _ => Err(io::Error::from_raw_os_error(errno::EISDIR)),
        }
    }
}
