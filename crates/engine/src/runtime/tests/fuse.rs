//! A file system in this process that answers EINVAL to O_DIRECT: files of one directory, in memory.
//!
//! It speaks as much of the FUSE protocol (version 7.31) as opening, reading, writing and removing
//! files takes, and says ENOSYS to the rest, fallocate included. All integers are of the host.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use rustix::mount::{MountFlags, UnmountFlags};

const O_DIRECT: u32 = 0o40000;

/// A mounted file system; unmounted on drop.
pub(super) struct NoDirect {
    at: PathBuf,
    server: Option<JoinHandle<()>>,
}

impl NoDirect {
    /// Mounts at `at`, which must be an empty directory. `PermissionDenied` for those who may not.
    pub(super) fn mount(at: &Path) -> io::Result<NoDirect> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let number = device.as_raw_fd();
        let data = CString::new(format!("fd={number},rootmode=40000,user_id=0,group_id=0"))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("corelog-test", at, "fuse", flags, Some(data.as_c_str()))?;
        let server = thread::spawn(move || Files::default().serve(device));
        Ok(NoDirect { at: at.to_owned(), server: Some(server) })
    }
}

impl Drop for NoDirect {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.at, UnmountFlags::DETACH).expect("it was mounted");
        if let Some(server) = self.server.take() {
            server.join().expect("the server does not panic");
        }
    }
}

/// Inode 1 is the directory; a file's inode is its place plus 2. Removed files keep their place.
#[derive(Default)]
struct Files {
    names: BTreeMap<Vec<u8>, usize>,
    contents: Vec<Vec<u8>>,
}

/// The fields of a request after its header.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }

    fn size(&self, at: usize) -> usize {
        usize::try_from(self.u64(at)).expect("a test's file is small")
    }

    fn name(&self, at: usize) -> Vec<u8> {
        self.0[at..].iter().copied().take_while(|byte| *byte != 0).collect()
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_le_bytes()).collect()
}

impl Files {
    fn serve(mut self, mut device: File) {
        let mut buffer = vec![0; (1 << 20) + 8192];
        loop {
            let len = match device.read(&mut buffer) {
                Ok(len) => len,
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => return,
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::ENOENT)) => continue,
                Err(e) => panic!("reading /dev/fuse: {e}"),
            };
            let head = Fields(&buffer[..40]);
            let (op, unique, node) = (head.u32(4), head.u64(8), head.size(16));
            // FORGET, INTERRUPT and BATCH_FORGET have no answer.
            if matches!(op, 2 | 36 | 42) {
                continue;
            }
            let answer = self.answer(op, node, &Fields(&buffer[40..len]));
            let (error, body) = match answer {
                Ok(body) => (0, body),
                Err(errno) => (errno, Vec::new()),
            };
            let length = u32::try_from(16 + body.len()).expect("an answer is small");
            let mut reply = words(&[length, 0_u32.wrapping_sub(error.cast_unsigned())]);
            reply.extend(longs(&[unique]));
            reply.extend(body);
            // ENOENT: the request was given up in the meantime.
            match device.write(&reply) {
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
                Err(e) => panic!("answering request {op}: {e}"),
            }
        }
    }

    fn answer(&mut self, op: u32, node: usize, fields: &Fields<'_>) -> Result<Vec<u8>, i32> {
        match op {
            // INIT: version, read-ahead, no flags, background limits, the largest write.
            26 => Ok(words(&[7, 31, 0, 0, 0, 1 << 20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
            // LOOKUP
            1 => {
                let place = *self.names.get(&fields.name(0)).ok_or(libc::ENOENT)?;
                Ok(self.entry(place))
            }
            // GETATTR
            3 => Ok(self.attributes_answer(node)),
            // SETATTR, of which the size counts.
            4 => {
                if fields.u32(0) & (1 << 3) != 0 {
                    self.contents[node - 2].resize(fields.size(16), 0);
                }
                Ok(self.attributes_answer(node))
            }
            // UNLINK
            10 => self.names.remove(&fields.name(0)).map(|_| Vec::new()).ok_or(libc::ENOENT),
            // OPEN
            14 => opened(fields.u32(0)),
            15 => Ok(self.read(node, fields)),
            16 => Ok(self.write(node, fields)),
            // STATFS: sizes of nothing in particular.
            17 => Ok([longs(&[1 << 20, 1 << 19, 1 << 19, 1 << 10, 1 << 9]), vec![0; 40]].concat()),
            // RELEASE, FSYNC, FLUSH, RELEASEDIR, FSYNCDIR, DESTROY
            18 | 20 | 25 | 29 | 30 | 38 => Ok(Vec::new()),
            // OPENDIR, READDIR: the directory looks empty.
            27 => Ok(vec![0; 16]),
            28 => Ok(Vec::new()),
            // CREATE
            35 => {
                let opened = opened(fields.u32(0))?;
                let place = self.contents.len();
                self.contents.push(Vec::new());
                self.names.insert(fields.name(16), place);
                Ok([self.entry(place), opened].concat())
            }
            _ => Err(libc::ENOSYS),
        }
    }

    fn read(&self, node: usize, fields: &Fields<'_>) -> Vec<u8> {
        let bytes = &self.contents[node - 2];
        let from = fields.size(8).min(bytes.len());
        let to = (from + fields.u32(16) as usize).min(bytes.len());
        bytes[from..to].to_vec()
    }

    fn write(&mut self, node: usize, fields: &Fields<'_>) -> Vec<u8> {
        let (at, len) = (fields.size(8), fields.u32(16) as usize);
        let bytes = &mut self.contents[node - 2];
        bytes.resize(bytes.len().max(at + len), 0);
        bytes[at..at + len].copy_from_slice(&fields.0[40..40 + len]);
        words(&[fields.u32(16), 0])
    }

    fn entry(&self, place: usize) -> Vec<u8> {
        let mut entry = longs(&[place as u64 + 2, 0, 0, 0]);
        entry.extend(words(&[0, 0]));
        entry.extend(self.attributes(place + 2));
        entry
    }

    fn attributes_answer(&self, node: usize) -> Vec<u8> {
        [vec![0; 16], self.attributes(node)].concat()
    }

    fn attributes(&self, node: usize) -> Vec<u8> {
        let (mode, size) = match node {
            1 => (libc::S_IFDIR | 0o755, 0),
            file => (libc::S_IFREG | 0o644, self.contents[file - 2].len() as u64),
        };
        let mut attributes = longs(&[node as u64, size, size.div_ceil(512), 0, 0, 0]);
        attributes.extend(words(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0]));
        attributes
    }
}

/// The answer to an open with `flags`.
fn opened(flags: u32) -> Result<Vec<u8>, i32> {
    if flags & O_DIRECT == 0 { Ok(vec![0; 16]) } else { Err(libc::EINVAL) }
}
