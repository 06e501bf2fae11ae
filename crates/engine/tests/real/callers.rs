//! The same engine from a tokio program, from a plain thread and from code on a shard.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll as Polled;

use corelog::error::{AppendError, ControlError, OffsetError, PollError, RunError, Unavailable};
use corelog::{Ack, Poll, TopicConfig};

use crate::support::{P, Sent, assert_same, batch, fresh_dir, poll_all, with_topic};

#[tokio::test]
async fn from_tokio() {
    let dir = fresh_dir("tokio");
    let open = tokio::task::spawn_blocking(move || crate::support::builder(&dir, 2).open());
    let engine = open.await.expect("it does not panic").expect("a fresh directory opens");
    let client = engine.client();
    client.catalog().create_stream("s").await.expect("the stream is new");
    let config = TopicConfig::default();
    client.catalog().create_topic("s", "t", config).await.expect("the topic is new");
    let mut sent = Vec::new();
    for tag in 0..20 {
        let bytes = batch(tag, 2, 500);
        let task = tokio::spawn(client.append(P, bytes.clone(), Ack::Durable));
        let appended = task.await.expect("it does not panic").expect("it fits");
        sent.push(Sent { bytes, appended });
    }
    client.flush(P, Ack::Durable).await.expect("the disk works");
    assert_eq!(client.watermarks(P).await.expect("it is open").durable(), 40);
    let records = client.poll(P, Poll::first()).await.expect("nothing is damaged");
    assert_same(P, &sent, &crate::support::batches(&records));
    let kept = records.to_owned();
    drop(records);
    let stats = client.stats().await.expect("the engine is open");
    assert_eq!(stats.shards.len(), 2);
    assert_eq!(stats.shards.iter().map(|shard| shard.partitions.len()).sum::<usize>(), 1);
    engine.close().await.expect("nothing is wrong");
    assert_same(P, &sent, &crate::support::batches(&kept));
}

#[test]
fn from_plain_threads() {
    let dir = fresh_dir("threads");
    let (engine, client) = with_topic(&dir, 2, TopicConfig { partitions: 4, ..Default::default() });
    std::thread::scope(|scope| {
        for partition in 0..4 {
            let client = client.clone();
            scope.spawn(move || {
                let id = corelog::PartitionId { partition, ..P };
                let append = |tag| {
                    let bytes = batch(tag, 3, 200);
                    let appended = client.append_blocking(id, bytes.clone(), Ack::Written);
                    Sent { bytes, appended: appended.expect("it fits") }
                };
                let sent: Vec<_> = (0..100).map(append).collect();
                assert_same(id, &sent, &poll_all(&client, id, 0, 10_000));
            });
        }
    });
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn from_code_on_a_shard_own_partitions_and_others() {
    let dir = fresh_dir("on_shard");
    let (engine, client) = with_topic(&dir, 2, TopicConfig { partitions: 2, ..Default::default() });
    let run = engine.run_on_shard(1, |shard| async move {
        assert_eq!(shard.index(), 1);
        let mut owned = 0;
        for partition in 0..2 {
            let id = corelog::PartitionId { partition, ..P };
            owned += u32::from(shard.owns(id));
            for tag in 0..10 {
                shard.append(id, batch(tag, 1, 100), Ack::Written).await.expect("it fits");
            }
            shard.flush(id, Ack::Durable).await.expect("the disk works");
            assert_eq!(shard.watermarks(id).await.expect("it is open").durable(), 10);
            let records = shard.poll(id, Poll::first()).await.expect("nothing is damaged");
            assert_eq!(records.messages(), 10);
        }
        owned
    });
    assert_eq!(block_on(run).expect("it runs to its end"), 1, "one of two partitions is its own");
    for partition in 0..2 {
        let id = corelog::PartitionId { partition, ..P };
        assert_eq!(poll_all(&client, id, 0, 1 << 20).len(), 10);
    }
    engine.close_blocking().expect("nothing is wrong");
}

/// Blocking on a shard's own thread is an error, not a deadlock, and does nothing.
#[test]
fn blocking_calls_on_a_shard_are_refused() {
    let dir = fresh_dir("blocking_on_shard");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let inside = client.clone();
    let other = fresh_dir("blocking_on_shard_other");
    let run = engine.run_on_shard(0, move |_| async move {
        let append = inside.append_blocking(P, batch(1, 1, 10), Ack::Written);
        assert!(matches!(append, Err(AppendError::OnShard)), "{append:?}");
        let flush = inside.flush_blocking(P, Ack::Written);
        assert!(matches!(flush, Err(AppendError::OnShard)), "{flush:?}");
        let poll = inside.poll_blocking(P, Poll::first());
        assert!(matches!(poll, Err(PollError::OnShard)), "{poll:?}");
        let marks = inside.watermarks_blocking(P);
        assert!(matches!(marks, Err(PollError::OnShard)), "{marks:?}");
        let create = inside.catalog().create_stream("inside").wait();
        assert!(matches!(create, Err(corelog::error::ChangeError::OnShard)), "{create:?}");
        let stats = inside.stats_blocking();
        assert!(matches!(stats, Err(ControlError::Unavailable(Unavailable::OnShard))), "{stats:?}");
        let scope = corelog::stats::Scope::Partition(P);
        let figures = inside.figures_blocking(scope);
        assert!(
            matches!(figures, Err(ControlError::Unavailable(Unavailable::OnShard))),
            "{figures:?}"
        );
        let reopened = inside.reopen_partition_blocking(P);
        assert!(reopened.is_err_and(|error| error.to_string().contains("shard's own thread")));
        let stored = inside.offset(P, corelog::consumers::ConsumerKey::group(1)).wait();
        assert!(
            matches!(stored, Err(OffsetError::Unavailable(Unavailable::OnShard))),
            "{stored:?}"
        );
        let opened = crate::support::builder(&other, 1).open().map(drop);
        assert!(matches!(opened, Err(corelog::error::OpenError::OnShard)), "{opened:?}");
    });
    block_on(run).expect("it runs to its end");
    assert_eq!(client.watermarks_blocking(P).expect("it is open").appended(), 0);
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn code_that_panics_ends_alone() {
    let dir = fresh_dir("panic_on_shard");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let at_once = engine.run_on_shard(0, |_| -> std::future::Ready<()> { panic!("at once") });
    assert!(matches!(block_on(at_once), Err(RunError::Panicked)));
    let later = engine.run_on_shard(0, |shard| async move {
        shard.yield_now().await;
        panic!("later");
    });
    assert!(matches!(block_on(later), Err::<(), _>(RunError::Panicked)));
    // A task that it spawned panics with records in its hands.
    client.append_blocking(P, batch(1, 5, 1000), Ack::Written).expect("it fits");
    let spawner = engine.run_on_shard(0, |shard| async move {
        let inside = shard.clone();
        shard.spawn(async move {
            let _held = inside.poll(P, Poll::first()).await.expect("nothing is damaged");
            panic!("with records");
        });
    });
    block_on(spawner).expect("it runs to its end");
    while client.stats_blocking().expect("the shard lives").panics == 0 {
        std::thread::yield_now();
    }
    let stats = client.stats_blocking().expect("the shard lives");
    assert!(stats.panic.as_ref().is_some_and(|text| text.contains("with records")), "{stats:?}");
    assert_eq!(poll_all(&client, P, 0, 1 << 20).len(), 1);
    assert!(matches!(
        block_on(engine.run_on_shard(9, |_| async {})),
        Err(RunError::NoSuchShard { index: 9, shards: 1 })
    ));
    engine.close_blocking().expect("nothing is wrong");
}

/// Code that never ends is dropped by the close, on its shard, and its caller is told.
#[test]
fn closing_ends_code_that_does_not_end() {
    let dir = fresh_dir("endless_code");
    let (engine, _client) = with_topic(&dir, 1, TopicConfig::default());
    let (started, has_started) = mpsc::channel();
    let run = engine.run_on_shard(0, move |_| async move {
        let note = OnDrop(Some(started.clone()));
        started.send("started").expect("the test waits");
        std::future::pending::<()>().await;
        drop(note);
    });
    assert_eq!(has_started.recv(), Ok("started"));
    engine.close_blocking().expect("nothing is wrong");
    let patience = std::time::Duration::from_secs(20);
    assert_eq!(has_started.recv_timeout(patience), Ok("dropped"));
    assert!(matches!(block_on(run), Err(RunError::Closed)));
}

struct OnDrop(Option<mpsc::Sender<&'static str>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.take().expect("dropped once").send("dropped");
    }
}

/// Awaits on this thread, without any runtime: the futures need none.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut cx = std::task::Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            Polled::Ready(done) => return done,
            Polled::Pending => std::thread::park(),
        }
    }
}

/// A future that was dropped after its first poll loses its answer, and nothing else.
#[test]
fn a_dropped_append_may_be_stored_and_harms_nobody() {
    let dir = fresh_dir("dropped_append");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    for tag in 0..50 {
        let mut call = client.append(P, batch(tag, 1, 5000), Ack::Durable);
        if tag % 2 == 0 {
            let polled_once = poll_fn(|cx| {
                let _ = std::pin::Pin::new(&mut call).poll(cx);
                Polled::Ready(())
            });
            block_on(polled_once);
        }
        drop(call);
    }
    let last = client.append_blocking(P, batch(99, 1, 10), Ack::Durable).expect("it fits");
    let stored = poll_all(&client, P, 0, 1 << 20);
    assert_eq!(stored.len() as u64, last.base_offset + 1, "all in a row, none twice");
    engine.close_blocking().expect("nothing is wrong");
}
