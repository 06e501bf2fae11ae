//! A partition that had a fault is recovered on its shard; nobody else notices, nobody is forgotten.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, FaultId, Sim, errno};
use corelog_io::{Clock, IoOp};
use corelog_shard::{AppendError, Client, ClientLimits, ControlError, Shards, Unavailable};
use corelog_storage::Ack;

/// Two partitions, of which the first has failed at a write while it held `0` and `1`.
async fn one_is_poisoned(sim: &Sim) -> (Shards, Client) {
    let shards = opened(sim, 1, 2).await;
    let client = shards.client(&ClientLimits::default());
    for partition in 0..2 {
        client.append(id(partition), batch([0, 1]), Ack::Durable).await.unwrap();
    }
    sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write).on("/2-0/").on(".log"));
    poison(&client).await;
    (shards, client)
}

async fn poison(client: &Client) {
    let refused = client.append(id(0), batch([2]), Ack::Written).await;
    let Err(AppendError::Storage(corelog_storage::AppendError::Poisoned(_))) = refused else {
        panic!("{refused:?}")
    };
}

fn stall_writes(sim: &Sim) -> FaultId {
    sim.disk().inject(Fault::stall().of(IoOp::Write).on("/2-0/"))
}

#[test]
fn it_takes_appends_again_and_the_others_never_noticed() {
    let sim = Sim::new(1);
    sim.run(async {
        let (shards, client) = one_is_poisoned(&sim).await;
        // Recovery takes its time: what comes meanwhile waits for it, in order.
        let slow = Fault::delay(Duration::from_secs(5)).of(IoOp::Read).on("/2-0/").for_ever();
        let slow = sim.disk().inject(slow);
        let before = sim.clock().elapsed();
        let reopening = shards.reopen(id(0));
        sim.clock().sleep(Duration::from_secs(1)).await;
        let waiting: Vec<_> =
            (10..13).map(|n| client.append(id(0), batch([n]), Ack::Durable)).collect();
        let poll = client.poll(id(0), from(0));
        client.append(id(1), batch([2]), Ack::Durable).await.unwrap();
        assert_eq!(numbers(&client.poll(id(1), from(0)).await.unwrap()), [0, 1, 2]);
        assert!(sim.clock().elapsed() - before < Duration::from_secs(2), "no slower for it");
        let report = reopening.await.unwrap();
        sim.disk().lift(slow);
        assert_eq!(report.damage, []);
        let end = poll.await.unwrap().next_offset();
        assert!(end >= 2, "what was written is served");
        for (call, n) in waiting.into_iter().zip(0..) {
            assert_eq!(call.await.unwrap().base_offset, client_end(&client).await - 3 + n);
        }
        close(&shards).await;
        assert_eq!(sim.disk().open_files(), 0);
    });
}

async fn client_end(client: &Client) -> u64 {
    client.watermarks(id(0)).await.unwrap().appended()
}

#[test]
fn the_old_life_serves_polls_until_its_io_has_ended() {
    let sim = Sim::new(2);
    sim.run(async {
        let shards = opened(&sim, 1, 1).await;
        let client = shards.client(&ClientLimits::default());
        client.append(id(0), batch([0, 1]), Ack::Durable).await.unwrap();
        let stall = stall_writes(&sim);
        let stuck = client.append(id(0), batch([2]), Ack::Written);
        sim.clock().sleep(Duration::from_millis(1)).await;
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Allocate).on("/2-0/"));
        // More than the space that is reserved.
        let big: Vec<_> = (3..40_000).collect();
        let big = client.append(id(0), batch(big), Ack::Written);
        assert!(big.await.is_err() && stuck.await.is_err());
        let reopening = shards.reopen(id(0));
        sim.clock().sleep(Duration::from_secs(60)).await;
        assert_eq!(numbers(&client.poll(id(0), from(0)).await.unwrap()), [0, 1]);
        assert!(client.append(id(0), batch([5]), Ack::Appended).await.is_err());
        for refused in [shards.reopen(id(0)).await.err(), shards.close(id(0)).await.err()] {
            assert!(matches!(refused, Some(ControlError::InUse(_))), "{refused:?}");
        }
        sim.disk().lift(stall);
        reopening.await.unwrap();
        client.append(id(0), batch([6]), Ack::Durable).await.unwrap();
        sim.disk().lift_all();
        close(&shards).await;
    });
}

#[test]
fn what_has_no_fault_is_left_alone() {
    let sim = Sim::new(3);
    sim.run(async {
        let shards = opened(&sim, 1, 1).await;
        let client = shards.client(&ClientLimits::default());
        assert!(matches!(shards.reopen(id(0)).await, Err(ControlError::NotPoisoned(_))));
        client.append(id(0), batch([1]), Ack::Durable).await.unwrap();
        let unknown = shards.reopen(id(9)).await;
        let Err(ControlError::Unavailable(Unavailable::UnknownPartition(_))) = unknown else {
            panic!("{unknown:?}")
        };
        close(&shards).await;
    });
}

#[test]
fn a_recovery_that_fails_is_remembered_and_an_opening_ends_it() {
    let sim = Sim::new(4);
    sim.run(async {
        let (shards, client) = one_is_poisoned(&sim).await;
        let fault = sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::List).for_ever());
        for _ in 0..2 {
            let failed = shards.reopen(id(0)).await;
            let Err(ControlError::Unavailable(Unavailable::PartitionFailed(why))) = failed else {
                panic!("{failed:?}")
            };
            assert!(why.to_string().contains("cannot list directory /2-0"), "{why}");
        }
        assert!(matches!(
            client.poll(id(0), from(0)).await,
            Err(corelog_shard::PollError::PartitionFailed(_))
        ));
        sim.disk().lift(fault);
        shards.open(id(0), place(id(0)), config()).await.unwrap();
        assert_eq!(numbers(&client.poll(id(0), from(0)).await.unwrap())[..2], [0, 1]);
        close(&shards).await;
    });
}

/// A read that never comes back holds up its own poll and the end of the shard, and nothing else:
/// the other partitions are closed, durably, and their locks are free.
#[test]
fn io_that_hangs_keeps_no_other_partition_from_its_close() {
    let sim = Sim::new(5);
    sim.run(async {
        let shards = opened(&sim, 1, 12).await;
        let client = shards.client(&ClientLimits::default());
        for partition in 0..12 {
            client.append(id(partition), batch([7]), Ack::Written).await.unwrap();
        }
        let write = stall_writes(&sim);
        let stuck = client.append(id(0), batch([8]), Ack::Written);
        let open = sim.disk().inject(Fault::stall().of(IoOp::Open).on("/2-99/"));
        let opening = shards.open(id(99), place(id(99)), config());
        sim.clock().sleep(Duration::from_millis(1)).await;
        let end = shards.close_all(0);
        sim.clock().sleep(Duration::from_secs(10)).await;
        let is_cut = |partition: u32| {
            let path = place(id(partition)).dir.join(format!("{:020}.log", 0));
            !sim.disk().contents(path).unwrap().len().is_multiple_of(4096)
        };
        assert!((1..12).all(is_cut), "all others are closed in order");
        assert!(!is_cut(0));
        sim.disk().lift(write);
        sim.disk().lift(open);
        stuck.await.unwrap();
        let _ = opening.await;
        let report = end.await.unwrap();
        assert_eq!((report.closed, report.failed.len()), (13, 0), "{report:?}");
        assert_eq!(sim.disk().open_files(), 0);
    });
}
