//! A shard that is busy sees what comes from other threads without turning to its I/O.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Instant;

use super::*;
use crate::runtime::glommio::counts::counts;
use crate::{Engine, Limits, PartitionId, ShardContext, TopicConfig};

/// Time for one question to be answered while its shard is busy: another turn of the executor may come
/// first each time, and always does while the machine gives the other shard no core.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks for the watermarks of another shard's partition, keeps this shard busy until whoever waits for
/// the answer was woken, and tells whether that took no turn of the executor: the wakes of other
/// threads that glommio takes in, it takes in there.
async fn woken_within_a_turn(shard: &ShardContext, of: PartitionId) -> bool {
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(Arc::clone(&flag));
    let mut call = shard.watermarks(of);
    let turns = counts().turns;
    let asked = std::pin::Pin::new(&mut call).poll(&mut Context::from_waker(&waker));
    while asked.is_pending() && !flag.0.load(Ordering::Relaxed) {
        shard.yield_now().await;
    }
    asked.is_pending() && counts().turns == turns
}

#[test]
fn an_answer_comes_home_within_a_turn() {
    let dir = fresh_dir(Runtime::Glommio, "busy");
    let limits = Limits { registered_bytes: MIB, ..Limits::default() };
    let builder = Engine::builder(&dir).shards(2).pin(false).limits(limits);
    let engine = builder.open().expect("a fresh directory opens");
    let catalog = engine.client().catalog();
    catalog.create_stream("s").wait().expect("it is new");
    let config = TopicConfig { partitions: 2, ..TopicConfig::default() };
    catalog.create_topic(0, "t", config).wait().expect("it is new");
    let asked = engine.run_on_shard(0, |shard| async move {
        let ids = (0..2).map(|partition| PartitionId::new(0, 0, partition));
        let other =
            ids.into_iter().find(|id| !shard.owns(*id)).expect("neighbours have owners in turn");
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if woken_within_a_turn(&shard, other).await {
                return true;
            }
        }
        false
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it starts");
    let within = runtime.block_on(asked).expect("it does not panic");
    assert!(within, "each answer waited for the executor to turn to its I/O");
    engine.close_blocking().expect("nothing is wrong");
}
