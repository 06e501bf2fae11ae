//! Tests of the simulated world itself: what it keeps, what it takes, what it catches.

mod durability;
mod faults;
mod images;
mod names;
mod running;

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::task::Poll;

use corelog_io::sim::{Sim, SimDisk, SimFile};
use corelog_io::{AlignedBytes, BLOCK, Buf, Disk, File, Open};

/// `blocks` blocks full of `fill`.
fn filled(disk: &SimDisk, blocks: usize, fill: u8) -> AlignedBytes {
    let mut buf = disk.alloc(blocks * BLOCK).expect("no limit is set");
    buf.as_mut().fill(fill);
    buf.freeze(blocks * BLOCK)
}

async fn create(disk: &SimDisk, path: &str) -> SimFile {
    let how = Open { create_new: true, ..Open::default() };
    disk.open(Path::new(path), how).await.expect("create")
}

async fn open(disk: &SimDisk, path: &str, how: Open) -> SimFile {
    disk.open(Path::new(path), how).await.expect("open")
}

/// A file of `blocks` blocks full of `fill`, all of it and its name durable.
async fn durable_file(disk: &SimDisk, path: &str, blocks: usize, fill: u8) -> SimFile {
    let file = create(disk, path).await;
    file.write_at(filled(disk, blocks, fill), 0).await.expect("write");
    file.sync().await.expect("sync");
    let dir = Path::new(path).parent().expect("a file has a directory");
    disk.sync_dir(dir).await.expect("sync directory");
    file
}

const WRITE: Open =
    Open { write: true, create_new: false, dsync: false, lock: false, short: false };
const DSYNC: Open = Open { write: true, create_new: false, dsync: true, lock: false, short: false };

/// Polls once: `None` where the future goes on.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// The contents of a file after `body` and a power cut, for each of 200 seeds; `None` where the
/// file is gone.
fn after_cuts(path: &str, body: impl AsyncFn(&Sim)) -> Vec<Option<Vec<u8>>> {
    (0..200)
        .map(|seed| {
            let sim = Sim::new(seed);
            sim.run(body(&sim));
            sim.disk().power_cut(seed);
            sim.disk().contents(path).ok()
        })
        .collect()
}

/// Each outcome once: the length, and the byte at 6,000 where there is one.
fn shapes(left: &[Option<Vec<u8>>]) -> BTreeSet<(usize, Option<u8>)> {
    left.iter().flatten().map(|bytes| (bytes.len(), bytes.get(6000).copied())).collect()
}
