//! What every [`Platform`] must do, as a suite that the simulated and the real one both run.
//!
//! A platform's own tests call [`suite`] with an empty directory. It panics at the first case that
//! fails and names it; the traits' documentation is the contract, the cases are its examples. What
//! only a power cut shows (that synced bytes stay) is not asked here: see [`sim`](crate::sim) for
//! the model and the crash harness for the proof on real file systems.

mod bytes;
mod names;
mod platform;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::{BLOCK, Buf, Clock, Disk, File, IoError, Open, Platform, Spawn};

type FileOf<P> = <<P as Platform>::Disk as Disk>::File;
type BufOf<P> = <<P as Platform>::Disk as Disk>::Buf;
type BytesOf<P> = <<P as Platform>::Disk as Disk>::Bytes;

/// How long a case waits for something that must come soon, before it fails.
const SOON: Duration = Duration::from_secs(10);

const READ: Open =
    Open { write: false, create_new: false, dsync: false, lock: false, short: false };
const WRITE: Open = Open { write: true, ..READ };
const CREATE: Open = Open { create_new: true, ..READ };

/// Makes a symbolic link: its target, its own path. Paths are as the platform's disk knows them.
pub type MakeLink<'a> = &'a dyn Fn(&Path, &Path) -> io::Result<()>;

/// Runs every case on `platform`, in directories of their own below `root`, which must be an empty
/// directory of a disk whose paths are paths of the operating system.
///
/// # Panics
/// At the first case that fails, naming it.
pub async fn suite<P: Platform>(platform: &P, root: &Path) {
    suite_with_links(platform, root, &|target, link| std::os::unix::fs::symlink(target, link))
        .await;
}

/// [`suite`] for a disk whose paths are its own: `make_link` makes a symbolic link on it.
///
/// # Panics
/// As [`suite`].
pub async fn suite_with_links<P: Platform>(platform: &P, root: &Path, make_link: MakeLink<'_>) {
    macro_rules! run {
        ($($part:ident: $($case:ident),+ $(,)?);+ $(;)?) => {
            $($({
                let name = concat!(stringify!($part), "-", stringify!($case));
                run_case(platform, root, name, $part::$case).await;
            })+)+
        };
    }
    run! {
        bytes: a_new_file_is_empty, reads_end_with_the_file, an_unaligned_end_is_exact,
            what_is_written_is_read, a_write_past_the_end_leaves_zeros,
            a_read_of_blocks_in_flight_sees_old_or_new, many_writes_at_once,
            large_transfers_are_whole, allocate_reserves_and_reads_as_zeros,
            set_len_cuts_and_grows_with_zeros, a_dsync_handle_writes_what_others_read, sync_is_ok,
            a_lock_excludes_until_it_is_closed, a_dropped_handle_gives_its_lock_back,
            operations_in_flight_end_before_the_lock_is_free;
        names: open_says_what_is_missing_or_there, directories_are_made_once,
            only_empty_directories_are_removed,
            list_tells_names_and_kinds, rename_replaces_a_file, rename_moves_a_directory,
            a_removed_file_stays_readable, sync_dir_wants_a_directory;
        platform: buffers_are_aligned_and_apart, freeze_keeps_exactly_that_many,
            sleep_takes_its_time, the_ceiling_never_falls, spawned_tasks_run_detached,
            a_panic_ends_its_task_alone, yielding_lets_tasks_and_io_run;
    }
    let links = async |case: Case<P>| names::links_are_not_followed(case, make_link).await;
    run_case(platform, root, "names-links_are_not_followed", links).await;
}

async fn run_case<P: Platform>(
    platform: &P,
    root: &Path,
    name: &'static str,
    body: impl AsyncFnOnce(Case<P>),
) {
    let case = Case { platform: platform.clone(), dir: root.join(name) };
    case.disk().create_dir(&case.dir).await.expect("the directory of a case");
    Named { name, case: Box::pin(body(case)) }.await;
}

/// Puts the case's name before what a panic in it says.
struct Named<F> {
    name: &'static str,
    case: Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Future for Named<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match catch_unwind(AssertUnwindSafe(|| self.case.as_mut().poll(cx))) {
            Ok(polled) => polled,
            Err(payload) => {
                let said = payload
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| payload.downcast_ref::<&str>().copied())
                    .unwrap_or("a panic without a text");
                panic!("contract case {}: {said}", self.name);
            }
        }
    }
}

/// A case's platform, its directory, and what most cases do.
struct Case<P> {
    platform: P,
    dir: PathBuf,
}

impl<P: Platform> Case<P> {
    fn disk(&self) -> &P::Disk {
        self.platform.disk()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    async fn create(&self, name: &str) -> FileOf<P> {
        self.disk().open(&self.path(name), CREATE).await.expect("create a file")
    }

    async fn open(&self, name: &str, how: Open) -> FileOf<P> {
        self.disk().open(&self.path(name), how).await.expect("open a file")
    }

    /// A file of `blocks` blocks full of `fill`.
    async fn file(&self, name: &str, blocks: usize, fill: u8) -> FileOf<P> {
        let file = self.create(name).await;
        file.write_at(self.filled(blocks, fill), 0).await.expect("write a file");
        file
    }

    fn buffer(&self, blocks: usize) -> BufOf<P> {
        self.disk().alloc(blocks * BLOCK).expect("the suite needs 4 MiB of buffers")
    }

    fn filled(&self, blocks: usize, fill: u8) -> BytesOf<P> {
        let mut buf = self.buffer(blocks);
        buf.as_mut().fill(fill);
        buf.freeze(blocks * BLOCK)
    }

    /// Waits until `done`, for [`SOON`] at the most.
    async fn soon(&self, what: &str, mut done: impl FnMut() -> bool) {
        let millis = SOON.as_millis();
        for _ in 0..millis {
            if done() {
                return;
            }
            self.platform.clock().sleep(Duration::from_millis(1)).await;
        }
        panic!("{what}: not within {millis} ms");
    }

    /// Runs each future in a task of its own, all at once, and answers what they answered.
    async fn all<T: 'static>(&self, futures: Vec<impl Future<Output = T> + 'static>) -> Vec<T> {
        let count = futures.len();
        let answers = Rc::new(RefCell::new(Vec::new()));
        for future in futures {
            let answers = Rc::clone(&answers);
            self.platform.spawn().spawn(async move {
                let answer = future.await;
                answers.borrow_mut().push(answer);
            });
        }
        self.soon("tasks of a case", || answers.borrow().len() == count).await;
        answers.take()
    }
}

/// Asserts that an error is of this kind and names its path, and its file in the message.
#[track_caller]
fn assert_error<T>(result: Result<T, IoError>, path: &Path, kind: io::ErrorKind) {
    let Err(error) = result else { panic!("Ok for {}, not {kind:?}", path.display()) };
    assert_eq!(error.source.kind(), kind, "{error}");
    assert_eq!(error.path, path, "{error}");
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
}
