//! The threads of the file operations: everything about files that may block, kept off the shards.
//!
//! A few threads do the jobs in the order they came. A job can also hang for as long as a disk
//! does, and then files of other partitions must still be opened, synced and removed. So one more
//! thread, the lookout, watches: where jobs wait and none was taken for [`PATIENCE`], it takes one
//! itself, and the next lookout is started. What came in for those that hang ends when they do. Only
//! when [`THREADS_MAX`] hang does everything wait; then what may be refused is, with a clear error.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use corelog_io::{IoError, IoOp};

use super::fileops::panic_text;

/// So long no job was taken from a queue that has some: what is being done hangs. Slow disks take
/// tens of milliseconds for a `fallocate` or a directory's sync.
const PATIENCE: Duration = Duration::from_millis(250);
/// Threads at most, the lookout among them.
pub(crate) const THREADS_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// A handle to the threads; cheap to clone, usable from any thread.
#[derive(Clone)]
pub(crate) struct FileOps {
    pool: Arc<Pool>,
}

/// The threads themselves. Dropped, they end when the jobs that were asked for are done.
pub(crate) struct FileThreads {
    pool: Arc<Pool>,
}

struct Pool {
    /// Threads that are always there, besides the lookout.
    count: usize,
    queue: Mutex<Queue>,
    /// A worker is wanted.
    work: Condvar,
    /// The lookout is wanted.
    alarm: Condvar,
    /// A thread has ended.
    ended: Condvar,
}

struct Queue {
    jobs: VecDeque<Job>,
    /// When a job was last taken, or came into an empty queue.
    moved: Instant,
    /// Workers that wait for jobs.
    idle: usize,
    /// All that run.
    threads: usize,
    /// Somebody is the lookout.
    lookout: bool,
    /// The lookout's clock runs already.
    armed: bool,
    ending: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Worker,
    Lookout,
}

impl FileThreads {
    /// Starts `count` threads and the lookout.
    pub(crate) fn start(count: usize) -> io::Result<(FileThreads, FileOps)> {
        let queue = Queue {
            jobs: VecDeque::new(),
            moved: Instant::now(),
            idle: 0,
            threads: 0,
            lookout: true,
            armed: false,
            ending: false,
        };
        let [work, alarm, ended] = [(); 3].map(|()| Condvar::new());
        let pool = Arc::new(Pool { count, queue: Mutex::new(queue), work, alarm, ended });
        let threads = FileThreads { pool: Arc::clone(&pool) };
        for _ in 0..count {
            pool.begin(Role::Worker)?;
        }
        pool.begin(Role::Lookout)?;
        Ok((threads, FileOps { pool }))
    }

    /// Ends the threads after the jobs that were asked for so far. Later ones fail.
    pub(crate) fn join(self) {
        self.pool.end();
        let mut queue = self.pool.queue();
        while queue.threads > 0 {
            queue = self.pool.ended.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for FileThreads {
    fn drop(&mut self) {
        self.pool.end();
    }
}

impl Pool {
    /// Nothing panics while it is held.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.queue().ending = true;
        self.work.notify_all();
        self.alarm.notify_all();
    }

    /// Starts one more thread.
    fn begin(self: &Arc<Self>, role: Role) -> io::Result<()> {
        let number = {
            let mut queue = self.queue();
            queue.threads += 1;
            queue.threads
        };
        let pool = Arc::clone(self);
        let thread = thread::Builder::new().name(format!("corelog-file-{number}"));
        let begun = thread.spawn(move || pool.serve(role)).map(drop);
        if begun.is_err() {
            let mut queue = self.queue();
            queue.threads -= 1;
            queue.lookout &= role != Role::Lookout;
        }
        begun
    }

    fn serve(self: &Arc<Self>, mut role: Role) {
        loop {
            let job = match role {
                Role::Worker => self.next(),
                Role::Lookout => self.watch(),
            };
            let Some(job) = job else { break };
            job();
            role = self.role();
        }
        self.queue().threads -= 1;
        self.ended.notify_all();
    }

    /// What a thread that has done a job is now: who was the lookout may have a successor.
    fn role(&self) -> Role {
        let mut queue = self.queue();
        // Whatever waits comes first; with nothing waiting somebody has to look out again.
        if queue.lookout || !queue.jobs.is_empty() {
            return Role::Worker;
        }
        (queue.lookout, queue.armed) = (true, false);
        Role::Lookout
    }

    /// The next job, or `None` where this thread is not needed any more.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.take() {
                self.arm(&queue);
                return Some(job);
            }
            if queue.ending || queue.threads > self.count + 1 {
                return None;
            }
            queue.idle += 1;
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    /// Waits until jobs wait that nobody takes; the first of them, with the next lookout on its
    /// way, or `None` at the end.
    fn watch(self: &Arc<Self>) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            queue.armed = !queue.jobs.is_empty();
            if !queue.armed {
                if queue.ending {
                    return None;
                }
                queue = self.alarm.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let left = PATIENCE.saturating_sub(queue.moved.elapsed());
            if left.is_zero() {
                break;
            }
            let waited = self.alarm.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let job = queue.take();
        queue.armed = false;
        queue.lookout = queue.threads < THREADS_MAX;
        if queue.lookout {
            drop(queue);
            // Without one, those that are there go on.
            let _ = self.begin(Role::Lookout);
        }
        job
    }

    /// Has the lookout look, where jobs wait and nobody is free.
    fn arm(&self, queue: &Queue) {
        if !queue.jobs.is_empty() && !queue.armed {
            self.alarm.notify_one();
        }
    }
}

impl Queue {
    fn take(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.moved = Instant::now();
        Some(job)
    }

    /// As many jobs hang as can, and others wait for them.
    fn is_stuck(&self) -> bool {
        !self.lookout && !self.jobs.is_empty() && self.moved.elapsed() >= PATIENCE
    }
}

impl FileOps {
    /// Runs `job` on a file thread. A job that panics is an error here, and nothing there.
    /// The job runs even where the future is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (reply, answer) = oneshot::channel();
        let job = move || {
            // Nobody waits any more where sending fails: the future was dropped.
            let _ = reply.send(catch_unwind(AssertUnwindSafe(job)));
        };
        self.push(Box::new(job))?;
        match answer.await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(panic)) => Err(io::Error::other(panic_text("file operation", &*panic))),
            Err(oneshot::RecvError) => Err(io::Error::other("a file-operations thread was lost")),
        }
    }

    fn push(&self, job: Job) -> io::Result<()> {
        let pool = &self.pool;
        let mut queue = pool.queue();
        if queue.ending {
            return Err(io::Error::other("the file-operations threads have ended"));
        }
        if queue.jobs.is_empty() {
            queue.moved = Instant::now();
        }
        queue.jobs.push_back(job);
        if queue.idle > 0 {
            pool.work.notify_one();
        } else {
            pool.arm(&queue);
        }
        Ok(())
    }

    /// Runs `job` on a file thread and flattens the two errors into one.
    pub(crate) async fn run_io<T: Send + 'static>(
        &self,
        op: IoOp,
        path: &Path,
        job: impl FnOnce(&Path) -> Result<T, IoError> + Send + 'static,
    ) -> Result<T, IoError> {
        let owned = path.to_path_buf();
        match self.run(move || job(&owned)).await {
            Ok(result) => result,
            Err(lost) => Err(IoError::new(op, path, lost)),
        }
    }

    /// As [`FileOps::run_io`] for what leaves everything as it was when it is not done: refused
    /// where it would wait for as many operations as can hang.
    pub(crate) async fn run_or_refuse<T: Send + 'static>(
        &self,
        op: IoOp,
        path: &Path,
        job: impl FnOnce(&Path) -> Result<T, IoError> + Send + 'static,
    ) -> Result<T, IoError> {
        if self.pool.queue().is_stuck() {
            let text =
                format!("{THREADS_MAX} file operations hang; try again when the disk answers");
            let busy = io::Error::new(io::ErrorKind::WouldBlock, text);
            return Err(IoError::new(op, path, busy));
        }
        self.run_io(op, path, job).await
    }
}

#[cfg(test)]
mod tests;
