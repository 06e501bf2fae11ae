//! What a power cut would leave, taken while the disk runs on: one run, any number of cuts.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::SimDisk;
use super::fault::errno;
use super::tree::{Node, Tree};
use super::{Rng, Sim};

/// The files and directories that a power cut left.
///
/// ```
/// use corelog_io::sim::Sim;
///
/// let sim = Sim::new(1);
/// sim.disk().put("/0.log", b"bytes").unwrap();
/// // At each step of a run: what if the power went here? The run itself goes on.
/// let image = sim.disk().image_of_power_cut(7);
/// let next_life = Sim::from_image(8, &image);
/// assert_eq!(next_life.disk().contents("/0.log").unwrap(), b"bytes");
/// ```
#[derive(Clone)]
pub struct Image {
    tree: Tree,
}

impl Image {
    /// Every file, sorted by path.
    pub fn files(&self) -> Vec<PathBuf> {
        self.tree.files().into_iter().map(|(path, _)| path).collect()
    }

    /// All bytes of a file.
    pub fn contents(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let ino = self.tree.find(path.as_ref())?;
        match self.tree.node(ino) {
            Some(Node::File(content)) => Ok(content.bytes()),
            _ => Err(io::Error::from_raw_os_error(errno::EISDIR)),
        }
    }
}

impl SimDisk {
    /// What [`SimDisk::power_cut`] at this moment could leave; nothing changes here. Of what is in
    /// flight only writes are drawn for: a rename or sync that has not returned has not happened.
    pub fn image_of_power_cut(&self, seed: u64) -> Image {
        let mut rng = Rng::new(seed);
        let mut tree = self.inner.state.borrow().tree.clone();
        tree.land_in_flight();
        tree.cut(&mut rng);
        Image { tree }
    }
}

impl Sim {
    /// A simulation whose disk begins as an image.
    pub fn from_image(seed: u64, image: &Image) -> Sim {
        let sim = Sim::new(seed);
        {
            let mut state = sim.disk().inner.state.borrow_mut();
            state.tree = image.tree.clone();
            state.recount();
        }
        sim
    }
}
