//! The tree: every file of ours, read once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::source::Source;

/// A text file that is not Rust.
pub(crate) struct Document {
    pub(crate) path: String,
    pub(crate) text: String,
}

#[derive(Default)]
pub(crate) struct Tree {
    /// Names at the top level.
    pub(crate) top: Vec<String>,
    /// Every Rust file.
    pub(crate) sources: Vec<Source>,
    /// Every other file that people write: manifests, documents, scripts.
    pub(crate) documents: Vec<Document>,
}

pub(crate) static TREE: LazyLock<Tree> = LazyLock::new(Tree::load);

/// What people write, besides Rust and scripts.
const WRITTEN: &[&str] = &["toml", "md", "sh", "py", "yml", "yaml"];

impl Tree {
    fn load() -> Tree {
        let top = names(&top()).into_iter().map(|(name, _)| name).filter(|name| !produced(name));
        let mut tree = Tree { top: top.collect(), ..Tree::default() };
        tree.folder(Path::new(""));
        tree
    }

    fn folder(&mut self, folder: &Path) {
        for (name, is_folder) in names(&top().join(folder)) {
            let path = folder.join(&name);
            if is_folder {
                if !produced(&name) && name != ".git" {
                    self.folder(&path);
                }
                continue;
            }
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
            let is_script = path.starts_with(".ci") || path.starts_with("scripts");
            if extension != "rs" && !is_script && !WRITTEN.contains(&extension) {
                continue;
            }
            // Tests that run beside this one come and go with files of theirs.
            let Ok(text) = fs::read_to_string(top().join(&path)) else { continue };
            let path = path.to_str().expect("a path of ours is UTF-8").to_string();
            if extension == "rs" {
                self.sources.push(Source::new(&path, &text));
            } else {
                self.documents.push(Document { path, text });
            }
        }
    }

    /// The text of a document, None where it is not there.
    pub(crate) fn document(&self, path: &str) -> Option<&str> {
        let document = self.documents.iter().find(|document| document.path == path);
        document.map(|document| document.text.as_str())
    }

    pub(crate) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &Document> {
        self.documents.iter().filter(move |document| document.path.ends_with(extension))
    }
}

/// Whether a name is what the build, the fuzzer or a run of the bench leaves behind.
fn produced(name: &str) -> bool {
    ["target", "corpus", "artifacts", "coverage"].contains(&name) || name.ends_with(".tmp")
}

/// Whether a path from the top is there, whatever it is.
pub(crate) fn exists(path: &str) -> bool {
    top().join(path).exists()
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names in a folder in order, with true for a folder. Links are not followed.
fn names(folder: &Path) -> Vec<(String, bool)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| {
            let is_folder = entry.file_type().ok()?.is_dir();
            Some((entry.file_name().into_string().ok()?, is_folder))
        })
        .collect();
    names.sort();
    names
}
