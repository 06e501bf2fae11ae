//! Steps of a group by table: what each does to members, their partitions and the generation.

use super::*;

const TIMEOUT_US: u64 = 30;

const A: ClientId = ClientId(0xA);
const B: ClientId = ClientId(0xB);
const C: ClientId = ClientId(0xC);
const D: ClientId = ClientId(0xD);

/// One step.
#[derive(Debug, Clone, Copy)]
enum Step {
    Join(ClientId),
    Leave(ClientId),
    Partitions(u32),
    /// The member polls the partition and is served messages up to the offset.
    Poll(ClientId, u32, u64),
    /// It stores the offset.
    Store(ClientId, u32, u64),
    Purge(u32),
    /// The time is so many microseconds.
    Time(u64),
}

use Step::{Join, Leave, Partitions, Poll, Purge, Store, Time};

/// A step, the generation after it, and what the members may poll then.
type Row<'a> = (Step, u64, &'a [(ClientId, &'a [u32])]);

fn take(group: &mut Group, step: Step, now_us: &mut u64) {
    match step {
        Join(client) => group.join(client, *now_us),
        Leave(client) => assert!(group.leave(client), "{client:?} is a member"),
        Partitions(count) => group.set_partitions(count),
        Poll(client, partition, last) => {
            let (turn, _) = group.begin_poll(client, partition).expect("it is the member's");
            assert!(group.end_poll(partition, turn, Some(last), false));
        }
        Store(client, partition, offset) => {
            let turn = group.begin_store(client, partition).expect("it is the member's");
            group.end_store(partition, turn, Some(Some(offset)));
        }
        Purge(partition) => group.purged(partition),
        Time(us) => {
            *now_us = us;
            group.tick(us);
        }
    }
}

fn check(name: &str, partitions: u32, rows: &[Row<'_>]) {
    let (mut group, mut now_us) = (Group::new(partitions, TIMEOUT_US), 0);
    for (number, (step, generation, want)) in rows.iter().enumerate() {
        take(&mut group, *step, &mut now_us);
        let at = format!("{name}, step {number}: {step:?}");
        assert_eq!(group.generation(), *generation, "{at}");
        assert_eq!(group.infos().len(), want.len(), "{at}");
        for (client, partitions) in *want {
            let assignment = group.sync(*client).expect("it is a member");
            assert_eq!((*client, &assignment.partitions[..]), (*client, *partitions), "{at}");
        }
    }
}

/// The worked example of iggy-behaviour.md, section 11.
#[test]
fn the_worked_example() {
    let rows: &[Row<'_>] = &[
        (Join(A), 1, &[(A, &[0, 1, 2, 3])]),
        (Join(B), 2, &[(A, &[0, 1]), (B, &[3, 2])]),
        (Join(C), 3, &[(A, &[0, 1]), (B, &[3]), (C, &[2])]),
        (Leave(A), 4, &[(B, &[0, 2]), (C, &[1, 3])]),
    ];
    check("the worked example", 4, rows);
}

#[test]
fn a_second_join_of_a_client_changes_nothing() {
    let rows: &[Row<'_>] = &[
        (Join(A), 1, &[(A, &[0, 1])]),
        (Join(B), 2, &[(A, &[0]), (B, &[1])]),
        (Join(A), 2, &[(A, &[0]), (B, &[1])]),
    ];
    check("idempotent", 2, rows);
}

#[test]
fn members_beyond_the_partitions_wait_and_empty_topics_have_none() {
    let rows: &[Row<'_>] = &[
        (Join(A), 1, &[(A, &[])]),
        (Partitions(1), 2, &[(A, &[0])]),
        (Join(B), 3, &[(A, &[0]), (B, &[])]),
        (Join(C), 4, &[(A, &[0]), (B, &[]), (C, &[])]),
        (Partitions(3), 5, &[(A, &[0]), (B, &[1]), (C, &[2])]),
        (Partitions(1), 6, &[(A, &[0]), (B, &[]), (C, &[])]),
        (Leave(A), 7, &[(B, &[0]), (C, &[])]),
        (Leave(C), 8, &[(B, &[0])]),
        (Leave(B), 9, &[]),
        (Partitions(2), 10, &[]),
        (Join(C), 11, &[(C, &[0, 1])]),
    ];
    check("few partitions", 0, rows);
}

/// The lowest free slot is taken, and slots give the order.
#[test]
fn slots_are_used_again() {
    let mut group = Group::new(3, TIMEOUT_US);
    for client in [A, B, C] {
        group.join(client, 0);
    }
    group.leave(A);
    group.join(D, 0);
    let ids: Vec<_> = group.infos().iter().map(|info| (info.id, info.client)).collect();
    assert_eq!(ids, [(0, D), (1, B), (2, C)]);
    group.leave(B);
    assert_eq!(group.sync(D).map(|a| (a.member, a.partitions)), Ok((0, vec![0, 2])));
    assert_eq!(group.sync(C).map(|a| (a.member, a.partitions)), Ok((2, vec![1])));
}

#[test]
fn what_was_polled_and_not_stored_stays_until_it_is_stored() {
    let rows: &[Row<'_>] = &[
        (Join(A), 1, &[(A, &[0, 1, 2, 3])]),
        (Poll(A, 2, 9), 1, &[(A, &[0, 1, 2, 3])]),
        (Poll(A, 3, 5), 1, &[(A, &[0, 1, 2, 3])]),
        (Store(A, 3, 5), 1, &[(A, &[0, 1, 2, 3])]),
        // 3 is done with and goes at once, 2 stays and is polled by nobody.
        (Join(B), 2, &[(A, &[0, 1]), (B, &[3])]),
        (Store(A, 2, 8), 2, &[(A, &[0, 1]), (B, &[3])]),
        (Store(A, 2, 9), 3, &[(A, &[0, 1]), (B, &[3, 2])]),
    ];
    check("stored", 4, rows);
}

#[test]
fn what_is_never_stored_goes_when_its_time_is_up() {
    let rows: &[Row<'_>] = &[
        (Join(A), 1, &[(A, &[0, 1, 2, 3])]),
        (Poll(A, 2, 9), 1, &[(A, &[0, 1, 2, 3])]),
        (Poll(A, 3, 9), 1, &[(A, &[0, 1, 2, 3])]),
        (Time(100), 1, &[(A, &[0, 1, 2, 3])]),
        (Join(B), 2, &[(A, &[0, 1]), (B, &[])]),
        (Time(129), 2, &[(A, &[0, 1]), (B, &[])]),
        // Each that goes counts.
        (Time(130), 4, &[(A, &[0, 1]), (B, &[2, 3])]),
    ];
    check("timeout", 4, rows);
}

/// One who comes while partitions leave gets a part of those, and their time runs on.
#[test]
fn a_leaving_partition_gets_another_target() {
    let rows: &[Row<'_>] = &[
        (Join(A), 1, &[(A, &[0, 1, 2, 3])]),
        (Poll(A, 2, 9), 1, &[(A, &[0, 1, 2, 3])]),
        (Poll(A, 3, 9), 1, &[(A, &[0, 1, 2, 3])]),
        (Join(B), 2, &[(A, &[0, 1]), (B, &[])]),
        (Time(20), 2, &[(A, &[0, 1]), (B, &[])]),
        (Join(C), 3, &[(A, &[0, 1]), (B, &[]), (C, &[])]),
        (Store(A, 3, 9), 4, &[(A, &[0, 1]), (B, &[3]), (C, &[])]),
        (Time(30), 5, &[(A, &[0, 1]), (B, &[3]), (C, &[2])]),
    ];
    check("another target", 4, rows);
}

#[test]
fn who_leaves_takes_everything_that_is_leaving_along() {
    let rows: &[Row<'_>] = &[
        (Join(A), 1, &[(A, &[0, 1])]),
        (Poll(A, 1, 9), 1, &[(A, &[0, 1])]),
        (Join(B), 2, &[(A, &[0]), (B, &[])]),
        (Leave(B), 3, &[(A, &[0, 1])]),
        // It is A's still, who has not stored it.
        (Join(C), 4, &[(A, &[0]), (C, &[])]),
        (Leave(A), 5, &[(C, &[0, 1])]),
        (Time(1_000), 5, &[(C, &[0, 1])]),
    ];
    check("leaving", 2, rows);
}

#[test]
fn a_purge_ends_what_is_under_way() {
    let rows: &[Row<'_>] = &[
        (Join(A), 1, &[(A, &[0, 1])]),
        (Poll(A, 1, 9), 1, &[(A, &[0, 1])]),
        (Join(B), 2, &[(A, &[0]), (B, &[])]),
        (Purge(0), 2, &[(A, &[0]), (B, &[])]),
        (Purge(1), 3, &[(A, &[0]), (B, &[1])]),
    ];
    check("purge", 2, rows);
}

/// Members A and B; 0 is A's, 1 is A's and leaves for B.
fn with_a_leaving_partition() -> Group {
    let mut group = Group::new(2, TIMEOUT_US);
    let mut now_us = 0;
    for step in [Join(A), Poll(A, 1, 9), Join(B)] {
        take(&mut group, step, &mut now_us);
    }
    group
}

#[test]
fn fences() {
    let mut group = with_a_leaving_partition();
    let polls = [
        (A, 0, None),
        (A, 1, Some(Fence::Leaving)),
        (A, 2, Some(Fence::NotOwner)),
        (B, 0, Some(Fence::NotOwner)),
        (B, 1, Some(Fence::NotOwner)),
        (C, 0, Some(Fence::NotMember)),
    ];
    for (client, partition, want) in polls {
        let got = group.begin_poll(client, partition).err();
        assert_eq!(got, want, "{client:?} polls {partition}");
    }
    let stores = [
        (A, 0, None),
        (A, 1, None),
        (A, 2, Some(Fence::NotOwner)),
        (B, 1, Some(Fence::NotOwner)),
        (C, 0, Some(Fence::NotMember)),
    ];
    for (client, partition, want) in stores {
        let got = group.begin_store(client, partition).err();
        assert_eq!(got, want, "{client:?} stores in {partition}");
    }
    assert_eq!(group.sync(C), Err(Fence::NotMember));
    assert!(!group.leave(C));
}

/// A poll that runs may be served messages: its partition stays until it is over.
#[test]
fn a_running_poll_holds_its_partition() {
    let mut group = Group::new(2, TIMEOUT_US);
    group.join(A, 0);
    let (first, _) = group.begin_poll(A, 1).expect("it is A's");
    let (second, _) = group.begin_poll(A, 1).expect("it is A's");
    group.join(B, 0);
    assert!(group.end_poll(1, first, None, false));
    assert_eq!(group.sync(B).map(|a| a.partitions), Ok(vec![]));
    // Served, and stored as done with it.
    assert!(group.end_poll(1, second, Some(3), true));
    assert_eq!(group.sync(B).map(|a| a.partitions), Ok(vec![1]));
    assert_eq!(group.generation(), 3);
}

#[test]
fn what_began_before_the_partition_went_has_no_say_any_more() {
    let mut group = Group::new(2, TIMEOUT_US);
    group.join(A, 0);
    let (poll, _) = group.begin_poll(A, 1).expect("it is A's");
    let store = group.begin_store(A, 1).expect("it is A's");
    group.join(B, 0);
    group.tick(TIMEOUT_US);
    let (later, ask) = group.begin_poll(B, 1).expect("its time is up");
    assert!(ask, "nobody knows what is stored");
    group.learn(1, poll, Some(100));
    assert!(!group.end_poll(1, poll, Some(9), false), "the messages come again");
    assert!(group.end_poll(1, later, Some(3), false));
    // Would it count, 1 could go to C at once.
    group.end_store(1, store, Some(Some(9)));
    group.leave(A);
    group.join(C, TIMEOUT_US);
    assert_eq!(group.sync(C).map(|a| a.partitions), Ok(vec![]));
}

/// A poll from an explicit offset may serve what is stored as done long since.
#[test]
fn what_was_stored_before_counts_once_it_is_known() {
    for (stored, goes) in [(Some(9), true), (Some(8), false), (None, false)] {
        let mut group = Group::new(2, TIMEOUT_US);
        group.join(A, 0);
        let (turn, ask) = group.begin_poll(A, 1).expect("it is A's");
        assert!(ask);
        group.learn(1, turn, stored);
        assert!(group.end_poll(1, turn, Some(9), false));
        let (turn, ask) = group.begin_poll(A, 1).expect("it is A's");
        assert!(!ask, "it is known");
        assert!(group.end_poll(1, turn, None, false));
        group.join(B, 0);
        assert_eq!(group.sync(B).map(|a| !a.partitions.is_empty()), Ok(goes), "{stored:?}");
    }
}

#[test]
fn a_store_of_which_nobody_knows_is_looked_up_again() {
    let mut group = Group::new(1, TIMEOUT_US);
    group.join(A, 0);
    let turn = group.begin_store(A, 0).expect("it is A's");
    group.end_store(0, turn, Some(Some(1)));
    assert_eq!(group.begin_poll(A, 0).map(|(_, ask)| ask), Ok(false));
    group.end_store(0, turn, None);
    assert_eq!(group.begin_poll(A, 0).map(|(_, ask)| ask), Ok(true));
}
