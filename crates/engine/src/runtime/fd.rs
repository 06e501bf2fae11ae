//! Descriptors of open files, on file-operations threads.
#![allow(unsafe_code, reason = "a thread gets a descriptor by number; a task keeps it open")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::file::Running;

/// Runs `job` with the descriptor of a file on a file-operations thread. Dropping the future does
/// not stop the job, and the file stays open until the job has ended.
pub(super) async fn with_fd<T: Send + 'static>(
    running: Running,
    job: impl FnOnce(BorrowedFd<'_>) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let number = running.handle().as_fd().as_raw_fd();
    let shard = running.shard();
    let (runtime, ops) = (shard.runtime, shard.ops.clone());
    let task = async move {
        let job = move || {
            // SAFETY: `number` belongs to the file of `running`, which this task drops only after the
            // job's answer. The task cannot be cancelled: dropped by who waits for it, it goes on
            // by itself, and an executor that dies before its tasks have ended leaks them (`life.rs`).
            job(unsafe { BorrowedFd::borrow_raw(number) })
        };
        let answer = ops.run(job).await;
        drop(running);
        answer
    };
    runtime.apart(task).await?
}
