//! Directories, and the durability of their entries apart from that of the files they name.
//!
//! A directory keeps its entries as the process sees them and as they are durable. Every creation,
//! removal and rename is a change that waits for a sync of the directory that holds it (a rename
//! for both). At a power cut each waiting change is kept or not; changes of one name keep their
//! order, and a rename is kept whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::Rng;
use super::content::Content;
use super::cut::Mood;
use super::fault::errno;
use super::names::{Effect, Entries, Ino, NameChanges};
use super::versions::Order;

pub(super) const ROOT: Ino = 1;

#[derive(Clone)]
pub(super) enum Node {
    File(Content),
    Dir {
        now: Entries,
        durable: Entries,
    },
    /// A symbolic link: never followed here, but it must be met to be refused.
    Link,
}

impl Node {
    pub(super) fn empty_dir() -> Node {
        Node::Dir { now: Entries::new(), durable: Entries::new() }
    }
}

/// All nodes of a disk, and the waiting changes of its directories.
#[derive(Clone)]
pub(super) struct Tree {
    nodes: BTreeMap<Ino, Node>,
    waiting: NameChanges,
    next: Ino,
}

fn os_error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl Tree {
    pub(super) fn new() -> Self {
        let nodes = BTreeMap::from([(ROOT, Node::empty_dir())]);
        Tree { nodes, waiting: NameChanges::default(), next: ROOT + 1 }
    }

    pub(super) fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(&ino)
    }

    /// The content of a file that is known to be one.
    pub(super) fn content(&self, ino: Ino) -> &Content {
        match self.nodes.get(&ino) {
            Some(Node::File(content)) => content,
            _ => unreachable!("node {ino} is an open file"),
        }
    }

    pub(super) fn content_mut(&mut self, ino: Ino) -> &mut Content {
        match self.nodes.get_mut(&ino) {
            Some(Node::File(content)) => content,
            _ => unreachable!("node {ino} is an open file"),
        }
    }

    fn entries(&self, ino: Ino) -> io::Result<&Entries> {
        match self.nodes.get(&ino) {
            Some(Node::Dir { now, .. }) => Ok(now),
            Some(_) => Err(os_error(errno::ENOTDIR)),
            None => Err(os_error(errno::ENOENT)),
        }
    }

    /// The node at `path`. No component may be a symbolic link that would have to be followed.
    pub(super) fn find(&self, path: &Path) -> io::Result<Ino> {
        let mut at = ROOT;
        for name in names(path)? {
            at = *self.entries(at)?.get(name).ok_or_else(|| os_error(errno::ENOENT))?;
        }
        Ok(at)
    }

    pub(super) fn find_dir(&self, path: &Path) -> io::Result<Ino> {
        let ino = self.find(path)?;
        self.entries(ino).map(|_| ino)
    }

    /// The directory that holds the last component of `path`, and that component.
    pub(super) fn parent<'p>(&self, path: &'p Path) -> io::Result<(Ino, &'p OsStr)> {
        let mut components = names(path)?;
        let last = components.pop().ok_or_else(|| os_error(errno::EINVAL))?;
        let mut at = ROOT;
        for name in components {
            at = *self.entries(at)?.get(name).ok_or_else(|| os_error(errno::ENOENT))?;
        }
        self.entries(at)?;
        Ok((at, last))
    }

    pub(super) fn child(&self, dir: Ino, name: &OsStr) -> Option<Ino> {
        self.entries(dir).ok()?.get(name).copied()
    }

    pub(super) fn list(&self, dir: Ino) -> io::Result<Vec<(OsString, bool)>> {
        let is_no_file =
            |ino: &Ino| matches!(self.nodes.get(ino), Some(Node::Dir { .. } | Node::Link));
        Ok(self.entries(dir)?.iter().map(|(name, ino)| (name.clone(), is_no_file(ino))).collect())
    }

    /// Adds `node` under a name that is free.
    pub(super) fn create(&mut self, dir: Ino, name: &OsStr, node: Node, now: Order) -> Ino {
        let ino = self.next;
        self.next += 1;
        self.nodes.insert(ino, node);
        self.change(vec![Effect::new(dir, name, Some(ino))], now);
        ino
    }

    /// Removes a name; answers the node, which lives on for who has it open.
    pub(super) fn unlink(&mut self, dir: Ino, name: &OsStr, now: Order) -> Option<Ino> {
        let ino = self.child(dir, name)?;
        self.change(vec![Effect::new(dir, name, None)], now);
        Some(ino)
    }

    /// Moves what `from` names to `to`; answers the node that was there before.
    pub(super) fn rename(&mut self, from: &Path, to: &Path, now: Order) -> io::Result<Option<Ino>> {
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        let moved = self.child(from_dir, from_name).ok_or_else(|| os_error(errno::ENOENT))?;
        let replaced = self.child(to_dir, to_name);
        if replaced == Some(moved) {
            return Ok(None);
        }
        let is_dir = matches!(self.nodes.get(&moved), Some(Node::Dir { .. }));
        if is_dir && self.is_inside(to_dir, moved) {
            return Err(os_error(errno::EINVAL));
        }
        match replaced.and_then(|ino| self.nodes.get(&ino)) {
            None => {}
            Some(Node::Dir { now, .. }) if is_dir && now.is_empty() => {}
            Some(Node::Dir { .. }) if is_dir => return Err(os_error(errno::ENOTEMPTY)),
            Some(Node::Dir { .. }) => return Err(os_error(errno::EISDIR)),
            Some(_) if is_dir => return Err(os_error(errno::ENOTDIR)),
            Some(_) => {}
        }
        self.change(
            vec![Effect::new(from_dir, from_name, None), Effect::new(to_dir, to_name, Some(moved))],
            now,
        );
        Ok(replaced)
    }

    /// Whether `dir` is `ancestor` or lies below it.
    fn is_inside(&self, dir: Ino, ancestor: Ino) -> bool {
        if dir == ancestor {
            return true;
        }
        self.entries(ancestor).is_ok_and(|entries| {
            entries.values().any(|child| {
                matches!(self.nodes.get(child), Some(Node::Dir { .. }))
                    && self.is_inside(dir, *child)
            })
        })
    }

    fn change(&mut self, effects: Vec<Effect>, landed: Order) {
        for effect in &effects {
            if let Some(Node::Dir { now, .. }) = self.nodes.get_mut(&effect.dir) {
                effect.apply(now);
            }
        }
        self.waiting.push(effects, landed);
    }

    /// A sync of `dir` that began at `begun` succeeded.
    pub(super) fn commit_before(&mut self, dir: Ino, begun: Order) {
        let done = self.waiting.synced_before(dir, begun);
        self.make_durable(&done);
    }

    /// A sync of `dir` that began at `begun` failed: no later one makes up for it.
    pub(super) fn doubt_before(&mut self, dir: Ino, begun: Order) {
        self.waiting.doubt_before(dir, begun);
    }

    fn make_durable(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Some(Node::Dir { durable, .. }) = self.nodes.get_mut(&effect.dir) {
                effect.apply(durable);
            }
        }
    }

    /// Lands every write that is in flight, for a cut to choose from.
    pub(super) fn land_in_flight(&mut self) {
        for node in self.nodes.values_mut() {
            if let Node::File(content) = node {
                content.land_in_flight();
            }
        }
    }

    /// What a power cut leaves of names and of bytes.
    pub(super) fn cut(&mut self, rng: &mut Rng) {
        let mood = Mood::draw(rng);
        let kept = self.waiting.keep(|_| mood.keeps(rng));
        self.make_durable(&kept);
        self.waiting = NameChanges::default();
        for node in self.nodes.values_mut() {
            match node {
                Node::File(content) => content.cut(rng),
                Node::Dir { now, durable } => now.clone_from(durable),
                Node::Link => {}
            }
        }
        self.forget_unreachable(&BTreeSet::new());
    }

    /// Drops nodes that no name leads to, now or durably, and that nobody has open.
    pub(super) fn forget_unreachable(&mut self, open: &BTreeSet<Ino>) {
        let mut reached = open.clone();
        let mut todo = vec![ROOT];
        todo.extend(self.waiting.targets());
        while let Some(ino) = todo.pop() {
            if !reached.insert(ino) {
                continue;
            }
            if let Some(Node::Dir { now, durable }) = self.nodes.get(&ino) {
                todo.extend(now.values().chain(durable.values()));
            }
        }
        self.nodes.retain(|ino, _| reached.contains(ino));
    }

    /// The nodes that names lead to, as the process sees them.
    pub(super) fn linked(&self) -> BTreeSet<Ino> {
        let mut reached = BTreeSet::new();
        let mut todo = vec![ROOT];
        while let Some(ino) = todo.pop() {
            if reached.insert(ino)
                && let Some(Node::Dir { now, .. }) = self.nodes.get(&ino)
            {
                todo.extend(now.values());
            }
        }
        reached
    }

    /// Every file and its path, sorted.
    pub(super) fn files(&self) -> Vec<(PathBuf, Ino)> {
        let mut found = Vec::new();
        let mut todo = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, ino)) = todo.pop() {
            match self.nodes.get(&ino) {
                Some(Node::File(_)) => found.push((path, ino)),
                Some(Node::Dir { now, .. }) => {
                    todo.extend(now.iter().map(|(name, ino)| (path.join(name), *ino)));
                }
                Some(Node::Link) | None => {}
            }
        }
        found.sort();
        found
    }

    /// Adds a name durably, at once, with the directories above it: how tests put files in place.
    pub(super) fn plant(&mut self, path: &Path, node: Node) -> io::Result<Ino> {
        let mut components = names(path)?;
        let last = components.pop().ok_or_else(|| os_error(errno::EINVAL))?;
        let mut at = ROOT;
        for name in components {
            at = match self.child(at, name) {
                Some(ino) => ino,
                None => self.plant_at(at, name, Node::empty_dir()),
            };
            self.entries(at)?;
        }
        Ok(self.plant_at(at, last, node))
    }

    fn plant_at(&mut self, dir: Ino, name: &OsStr, node: Node) -> Ino {
        let ino = self.next;
        self.next += 1;
        self.nodes.insert(ino, node);
        self.set_durably(dir, name, Some(ino));
        ino
    }

    /// Removes a name durably, at once.
    pub(super) fn uproot(&mut self, path: &Path) -> io::Result<Ino> {
        let ino = self.find(path)?;
        let (dir, name) = self.parent(path)?;
        self.set_durably(dir, name, None);
        Ok(ino)
    }

    fn set_durably(&mut self, dir: Ino, name: &OsStr, target: Option<Ino>) {
        // Older changes of this name are settled, so that no power cut turns the order round.
        let settled = self.waiting.keep(|effects| effects.iter().any(|e| e.names(dir, name)));
        self.make_durable(&settled);
        let effect = Effect::new(dir, name, target);
        if let Some(Node::Dir { now, durable }) = self.nodes.get_mut(&dir) {
            effect.apply(now);
            effect.apply(durable);
        }
    }
}

/// The components of a path. Relative paths begin at the root; `..` is refused: no path of ours has
/// one, and a name must never become one.
fn names(path: &Path) -> io::Result<Vec<&OsStr>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(os_error(errno::EINVAL)),
        }
    }
    Ok(names)
}
