//! Jobs that hang, jobs that wait behind them, and the threads that come and go for it.

use std::sync::mpsc;

use super::*;

/// What nothing here takes.
const LONG: Duration = Duration::from_secs(30);

/// A job that tells when it has begun, and hangs until the other end of `end` is dropped.
fn hang(ops: &FileOps, begun: &mpsc::Sender<()>, end: &Arc<Mutex<mpsc::Receiver<()>>>) {
    let (begun, end) = (begun.clone(), Arc::clone(end));
    let job = move || {
        begun.send(()).expect("the test waits for it");
        // All hang in the lock but one, which hangs in the receiver.
        let _ = end.lock().unwrap_or_else(PoisonError::into_inner).recv();
    };
    ops.push(Box::new(job)).expect("the threads run");
}

/// Asks for a job that does nothing; the answer comes when it is done.
fn ask(ops: &FileOps) -> mpsc::Receiver<()> {
    let (done, answer) = mpsc::channel();
    let job = move || {
        let _ = done.send(());
    };
    ops.push(Box::new(job)).expect("the threads run");
    answer
}

fn threads(ops: &FileOps) -> usize {
    ops.pool.queue().threads
}

fn wait_until(what: &str, reached: impl Fn() -> bool) {
    let patience = Instant::now() + LONG;
    while !reached() {
        assert!(Instant::now() < patience, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_hangs_holds_up_nothing_else_and_the_threads_go_when_it_ends() {
    let (pool, ops) = FileThreads::start(2).expect("threads can be started");
    let ((begun, began), (over, end)) = (mpsc::channel(), mpsc::channel());
    let end = Arc::new(Mutex::new(end));
    for _ in 0..5 {
        hang(&ops, &begun, &end);
    }
    let answer = ask(&ops);
    answer.recv_timeout(LONG).expect("it does not wait for what hangs");
    for _ in 0..5 {
        began.recv_timeout(LONG).expect("each has a thread");
    }
    assert!((6..=8).contains(&threads(&ops)), "{} threads", threads(&ops));
    drop(over);
    wait_until("those that were more go", || threads(&ops) == 3);
    for _ in 0..100 {
        ask(&ops).recv_timeout(LONG).expect("and those that are left work");
    }
    assert_eq!(threads(&ops), 3, "what does not hang needs no more");
    pool.join();
    assert_eq!(threads(&ops), 0);
    assert!(ops.push(Box::new(|| ())).is_err(), "nobody would do it");
}

/// At the limit: what may be refused is, and names why; the rest waits and is done in the end.
#[test]
fn when_as_many_hang_as_can_openings_are_refused_and_nothing_is_lost() {
    let (pool, ops) = FileThreads::start(THREADS_MAX - 1).expect("threads can be started");
    let ((begun, began), (over, end)) = (mpsc::channel(), mpsc::channel());
    let end = Arc::new(Mutex::new(end));
    for _ in 0..THREADS_MAX {
        hang(&ops, &begun, &end);
    }
    for _ in 0..THREADS_MAX {
        began.recv_timeout(LONG).expect("each has a thread");
    }
    let open = || {
        let path = Path::new("/0.log");
        ops.run_or_refuse(IoOp::Open, path, |_| Ok(()))
    };
    // Nothing waits yet: this one is taken, and waits.
    let first = std::pin::pin!(open());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(first.poll(&mut context).is_pending());
    let answers: Vec<_> = (0..10).map(|_| ask(&ops)).collect();
    wait_until("it is stuck", || ops.pool.queue().is_stuck());
    assert_eq!(threads(&ops), THREADS_MAX);
    let std::task::Poll::Ready(Err(error)) = std::pin::pin!(open()).poll(&mut context) else {
        panic!("it would wait for 64 that hang");
    };
    assert_eq!(error.source.kind(), io::ErrorKind::WouldBlock);
    assert!(error.to_string().contains("64 file operations hang"), "{error}");
    drop(over);
    for answer in answers {
        answer.recv_timeout(LONG).expect("done when the others are");
    }
    pool.join();
}

#[test]
fn many_short_jobs_start_no_threads() {
    let (pool, ops) = FileThreads::start(1).expect("threads can be started");
    let answers: Vec<_> = (0..600)
        .map(|_| {
            let (done, answer) = mpsc::channel();
            let job = move || {
                thread::sleep(Duration::from_millis(1));
                let _ = done.send(thread::current().name().map(str::to_owned));
            };
            ops.push(Box::new(job)).expect("the threads run");
            answer
        })
        .collect();
    for answer in answers {
        let name = answer.recv_timeout(LONG).expect("all are done");
        assert_eq!(name.as_deref(), Some("corelog-file-1"), "by the one thread there is");
    }
    pool.join();
}
