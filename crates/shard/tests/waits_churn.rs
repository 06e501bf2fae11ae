//! A million polls that wait in vain, or whose callers give up: none of them is left behind. Alone in
//! its process, whose memory is looked at.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::Sim;
use corelog_io::{Clock, Platform};
use corelog_shard::ClientLimits;
use corelog_storage::PollQuery;

const AT_A_TIME: u32 = 500;
const ROUNDS: u32 = 2000;

/// Resident memory of this process, KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn a_million_waits_leave_nothing_behind() {
    let sim = Sim::new(1);
    sim.run(async {
        let shards = opened(&sim, 1, 10).await;
        let client = shards.client(&ClientLimits::default());
        let mut settled = 0;
        for round in 0..ROUNDS {
            let max_wait = match round % 2 {
                0 => Duration::from_millis(1),
                _ => Duration::from_secs(3600),
            };
            let query = PollQuery { max_wait, ..from(0) };
            let calls: Vec<_> = (0..AT_A_TIME).map(|n| client.poll(id(n % 10), query)).collect();
            if round % 2 == 0 {
                for call in calls {
                    assert!(call.await.unwrap().is_empty(), "its time was over");
                }
            } else {
                // Before they came to their partition, and while they wait.
                if round % 4 == 1 {
                    sim.platform().clock().sleep(Duration::from_millis(2)).await;
                }
                drop(calls);
                sim.platform().clock().sleep(Duration::from_millis(2)).await;
            }
            if round == ROUNDS / 4 {
                settled = resident_kib();
            }
        }
        let stats = shards.stats(0).await.unwrap();
        assert_eq!((stats.polls_in_flight, stats.tasks, client.in_flight()), (0, 0, (0, 0)));
        let grown = resident_kib().saturating_sub(settled);
        // A leak of 16 bytes a poll would be 11 MiB.
        assert!(grown < 4 << 10, "{grown} KiB more after {} polls", AT_A_TIME * ROUNDS / 4 * 3);
        close(&shards).await;
    });
}
