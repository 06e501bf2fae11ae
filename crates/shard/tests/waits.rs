//! Polls that wait: what they cost is counted in polls of tasks, and none of it is left behind.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::Sim;
use corelog_io::{Clock, Platform};
use corelog_shard::{
    Call, Client, ClientLimits, PollError, Records, ShardLimits, ShardStats, Shards,
};
use corelog_storage::{Ack, PollQuery};

const POLLS: u32 = 1000;
const HOUR: Duration = Duration::from_secs(3600);

type Waiting = Call<Records, PollError>;

fn waiting(offset: u64, max_wait: Duration) -> PollQuery {
    PollQuery { max_wait, ..from(offset) }
}

async fn sleep(sim: &Sim, time: Duration) {
    sim.platform().clock().sleep(time).await;
}

async fn stats(shards: &Shards) -> ShardStats {
    shards.stats(0).await.unwrap()
}

/// One poll a partition, each behind the end `end`.
async fn wait_on_all(sim: &Sim, client: &Client, end: u64) -> Vec<Waiting> {
    let ask = |partition| client.poll(id(partition), waiting(end, 10 * HOUR));
    let calls: Vec<_> = (0..POLLS).map(ask).collect();
    assert!(calls.iter().all(|call| call.refusal().is_none()));
    sleep(sim, Duration::from_millis(10)).await;
    calls
}

#[test]
fn a_thousand_that_wait_run_no_task_and_an_append_wakes_its_own() {
    let sim = Sim::new(1);
    sim.run(async {
        let shards = opened(&sim, 1, POLLS).await;
        let client = shards.client(&ClientLimits::default());
        sleep(&sim, Duration::from_secs(5)).await;
        let before = sim.steps();
        sleep(&sim, HOUR).await;
        let with_none = sim.steps() - before;

        let mut calls = wait_on_all(&sim, &client, 0).await;
        assert_eq!(stats(&shards).await.polls_in_flight, POLLS as usize);
        let before = sim.steps();
        sleep(&sim, HOUR).await;
        assert_eq!(sim.steps() - before, with_none, "an hour of waiting ran tasks");

        // What one append costs with nobody waiting there, and with one.
        let steps_of_append = async |partition| {
            let before = sim.steps();
            client.append(id(partition), batch([7]), Ack::Written).await.unwrap();
            sleep(&sim, Duration::from_secs(5)).await;
            sim.steps() - before
        };
        let woken = calls.remove(0);
        let one = steps_of_append(0).await;
        assert_eq!(woken.await.unwrap().messages(), 1);
        let none = steps_of_append(0).await;
        assert!(one <= none + 3, "{one} polls of tasks instead of {none}: who else was woken?");
        let polls: u64 = stats(&shards).await.partitions.iter().map(|(_, p)| p.polls).sum();
        assert_eq!(polls, u64::from(POLLS), "each poll was begun once");

        for (partition, call) in (1..).zip(calls) {
            client.append(id(partition), batch([7]), Ack::Appended).await.unwrap();
            assert_eq!(call.await.unwrap().messages(), 1);
        }
        let stats = stats(&shards).await;
        assert_eq!((stats.polls_in_flight, stats.tasks), (0, 0));
        close(&shards).await;
    });
}

#[test]
fn who_gives_up_gives_his_place_back_at_once() {
    for mailbox_requests in [1, 4, 64] {
        let sim = Sim::new(2);
        sim.run(async {
            let limits =
                ShardLimits { polls_in_flight: 8, mailbox_requests, ..ShardLimits::default() };
            let shards = running(&sim, 1, &limits);
            shards.open(id(0), place(id(0)), config()).await.unwrap();
            let client = shards.client(&ClientLimits::default());
            let settle = || sleep(&sim, Duration::from_millis(10));
            for _ in 0..50 {
                let mut calls = Vec::new();
                for _ in 0..8 {
                    let call = client.poll(id(0), waiting(0, 10 * HOUR));
                    assert!(call.refusal().is_none(), "{:?}", call.refusal());
                    calls.push(call);
                    settle().await;
                }
                let refused = client.poll(id(0), waiting(0, HOUR));
                let busy = matches!(refused.refusal(), Some(PollError::Busy));
                assert!(busy, "all places are taken: {:?}", refused.refusal());
                // All at once: more than the mailbox has room for.
                drop((calls, refused));
                settle().await;
                // Whoever found the mailbox full is heard with the next request.
                client.watermarks(id(0)).await.unwrap();
                settle().await;
                let stats = stats(&shards).await;
                assert_eq!((stats.polls_in_flight, stats.tasks), (0, 0), "{mailbox_requests}");
            }
            close(&shards).await;
        });
    }
}

#[test]
fn one_that_gives_up_takes_no_other_with_it() {
    let sim = Sim::new(3);
    sim.run(async {
        let shards = opened(&sim, 1, 1).await;
        let client = shards.client(&ClientLimits::default());
        for number in 0..200_u64 {
            let mut calls: Vec<_> =
                (0..5).map(|_| client.poll(id(0), waiting(number, HOUR))).collect();
            if number % 2 == 0 {
                sleep(&sim, Duration::from_millis(5)).await;
            }
            drop(calls.remove((number % 5) as usize));
            // It may get the slot that was given up a moment ago.
            calls.push(client.poll(id(0), waiting(number, HOUR)));
            sleep(&sim, Duration::from_millis(number % 3)).await;
            client.append(id(0), batch([number]), Ack::Appended).await.unwrap();
            for call in calls {
                assert_eq!(numbers(&call.await.unwrap()), [number]);
            }
        }
        close(&shards).await;
    });
}
