//! Inodes over the files of a plain directory. A file's inode keeps it open, so that it can be used
//! as long as anybody has it open, whatever became of its name.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{Errno, FileAttr, FileType, INodeNo};

use super::rules::Subject;

/// All inodes that the kernel has heard of.
pub(super) struct Nodes {
    root: PathBuf,
    next: u64,
    by_number: HashMap<u64, Node>,
    by_path: HashMap<PathBuf, u64>,
}

struct Node {
    /// Below the root; the last one, where the file has no name any more.
    path: PathBuf,
    /// `None`: a directory.
    file: Option<Arc<File>>,
}

impl Nodes {
    pub(super) fn new(root: &Path) -> Nodes {
        let top = Node { path: PathBuf::new(), file: None };
        Nodes {
            root: root.to_owned(),
            next: INodeNo::ROOT.0 + 1,
            by_number: HashMap::from([(INodeNo::ROOT.0, top)]),
            by_path: HashMap::from([(PathBuf::new(), INodeNo::ROOT.0)]),
        }
    }

    fn node(&self, number: INodeNo) -> Result<&Node, Errno> {
        self.by_number.get(&number.0).ok_or(Errno::ESTALE)
    }

    /// What an operation on this inode is done to.
    pub(super) fn subject(&self, number: INodeNo) -> Subject {
        match self.by_number.get(&number.0) {
            Some(Node { path, file: Some(_) }) => Subject::file(path),
            Some(Node { path, file: None }) => Subject::dir(path),
            None => Subject::dir(Path::new("")),
        }
    }

    /// The path of `name` in the directory `parent`, below the root.
    pub(super) fn path(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf, Errno> {
        Ok(self.node(parent)?.path.join(name))
    }

    pub(super) fn real(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    pub(super) fn dir(&self, number: INodeNo) -> Result<PathBuf, Errno> {
        Ok(self.real(&self.node(number)?.path))
    }

    pub(super) fn file(&self, number: INodeNo) -> Result<Arc<File>, Errno> {
        self.node(number)?.file.clone().ok_or(Errno::EISDIR)
    }

    pub(super) fn attr(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let node = self.node(number)?;
        let metadata = match &node.file {
            Some(file) => file.metadata()?,
            None => self.real(&node.path).symlink_metadata()?,
        };
        Ok(attr(number, &metadata))
    }

    /// The inode of what is at `path`, as it is or as `create` makes it.
    pub(super) fn find(
        &mut self,
        path: PathBuf,
        create: Option<&OpenOptions>,
    ) -> Result<FileAttr, Errno> {
        let real = self.real(&path);
        let created = create.map(|how| how.open(&real)).transpose()?;
        let metadata = real.symlink_metadata()?;
        let number = match self.by_path.get(&path) {
            Some(number) => *number,
            None => {
                let file = match created {
                    None if metadata.is_dir() => None,
                    None => Some(OpenOptions::new().read(true).write(true).open(&real)?),
                    created => created,
                };
                let number = self.next;
                self.next += 1;
                let node = Node { path: path.clone(), file: file.map(Arc::new) };
                self.by_number.insert(number, node);
                self.by_path.insert(path, number);
                number
            }
        };
        Ok(attr(INodeNo(number), &metadata))
    }

    /// The name at `path` is gone.
    pub(super) fn removed(&mut self, path: &Path) {
        self.by_path.remove(path);
    }

    /// What was at `from`, and all that was below, is at `to`.
    pub(super) fn renamed(&mut self, from: &Path, to: &Path) {
        self.by_path.remove(to);
        let below: Vec<_> =
            self.by_path.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for old in below {
            let rest = old.strip_prefix(from).expect("it starts with it");
            // `join` of nothing would end in a slash.
            let new = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
            if let Some(number) = self.by_path.remove(&old) {
                if let Some(node) = self.by_number.get_mut(&number) {
                    node.path.clone_from(&new);
                }
                self.by_path.insert(new, number);
            }
        }
    }

    /// The kernel has no use for the inode any more.
    pub(super) fn forget(&mut self, number: INodeNo) {
        let Some(node) = self.by_number.get(&number.0) else { return };
        // What has a name keeps its inode: the next lookup takes it again.
        if self.by_path.get(&node.path) != Some(&number.0) {
            self.by_number.remove(&number.0);
        }
    }
}

fn attr(ino: INodeNo, metadata: &Metadata) -> FileAttr {
    let time = |t: std::io::Result<std::time::SystemTime>| t.unwrap_or(std::time::UNIX_EPOCH);
    FileAttr {
        ino,
        size: metadata.len(),
        blocks: metadata.blocks(),
        atime: time(metadata.accessed()),
        mtime: time(metadata.modified()),
        ctime: time(metadata.modified()),
        crtime: time(metadata.modified()),
        kind: FileType::from_std(metadata.file_type()).unwrap_or(FileType::RegularFile),
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: u32::try_from(metadata.nlink()).unwrap_or(u32::MAX),
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
