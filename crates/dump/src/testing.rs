//! What unit tests share: files that are removed with their test, and stamped batches.

use std::fs;
use std::path::PathBuf;

use corelog_format::{BatchBuilder, Message, admit};

/// A file of one test.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    /// With these bytes; `name` is the test's own.
    pub(crate) fn with(name: &str, bytes: &[u8]) -> Temporary {
        let path = std::env::temp_dir().join(format!("corelog-dump-{name}-{}", std::process::id()));
        fs::write(&path, bytes).expect("a temporary file");
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A batch of partition 0 as it stands in a log. Times rise with the offsets.
pub(crate) fn batch(base_offset: u64, payloads: &[&[u8]]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for payload in payloads {
        builder.push(Message::new(payload)).expect("it fits");
    }
    let mut bytes = builder.finish().expect("a batch");
    let header = admit(&bytes).expect("ours").stamp(0, base_offset, 1_000 + base_offset);
    bytes[..header.len()].copy_from_slice(&header);
    bytes
}
