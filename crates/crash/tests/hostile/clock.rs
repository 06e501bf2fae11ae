//! A clock record that cannot be written keeps no partition closed.

use std::time::Duration;

use corelog::error::{AppendError, storage};
use corelog::{Ack, PartitionId};
use corelog_crash::content::{BatchKey, Content};
use corelog_crash::hostile::{Answer, Kind, Op, Rule};

use crate::support::{builder, create_topics, mounted};

const EIO: Answer = Answer::Errno(libc::EIO);

/// A partition that a recovery has left closed is opened again while the clock record fails: it is
/// served, and is said to be.
#[test]
fn a_partition_that_is_served_is_said_to_be_open() {
    let mounted = mounted();
    let _watch = mounted.disk.watch(Duration::from_secs(100), "a clock that fails");
    let engine = builder(&mounted.point).open().expect("a healthy disk");
    let client = engine.client();
    create_topics(&client);
    let id = PartitionId::new(0, 0, 0);
    let batch = |nth| Content::new(1).batch(id, BatchKey::new(0, 0, nth));
    client.append_blocking(id, batch(0), Ack::Durable).expect("a healthy disk");
    mounted.disk.begin(&[Rule::new(Op::Fdatasync, Kind::Log, EIO).of(0)]);
    let poisoned = client.append_blocking(id, batch(1), Ack::Durable);
    let is_poisoned =
        |error| matches!(error, Err(AppendError::Storage(storage::AppendError::Poisoned(_))));
    assert!(is_poisoned(poisoned));
    client.reopen_partition_blocking(id).expect_err("its recovery cannot sync");
    mounted.disk.end();
    mounted.disk.begin(&[Rule::new(Op::Fdatasync, Kind::Clock, EIO)]);
    client.reopen_partition_blocking(id).expect("the partition's own files are sound");
    client.append_blocking(id, batch(2), Ack::Durable).expect("it is served");
    mounted.disk.end();
    engine.close_blocking().expect("nothing is wrong");
}
