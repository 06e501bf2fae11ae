//! Records that are copied out of a shard's buffers: the buffers go home, the bytes stay.

use std::time::{Duration, Instant};

use corelog::{Ack, Client, Limits, Poll, Records, TopicConfig};

use crate::support::{P, batch, batches, builder, fresh_dir, reopened, small, with_topic};

/// Views that are out, bytes of the buffers that they pin, and views that were copied instead.
fn lent(client: &Client) -> (usize, usize, u64) {
    let memory = client.totals_blocking().expect("it is open").memory[0];
    (memory.leases, memory.lease_bytes, memory.copied)
}

fn all(records: &Records) -> Vec<u8> {
    records.slices().concat()
}

/// What a copy says beside its bytes.
fn facts(records: &Records) -> (usize, u32, Option<u64>, u64, u64) {
    let (first, next, end) = (records.first_offset(), records.next_offset(), records.end_offset());
    (records.len(), records.messages(), first, next, end)
}

/// Two polls' records, one kept and one copied: with the copy nothing is out.
fn copy_gives_back(client: &Client, sent: &[u8]) -> Records {
    let poll = || client.poll_blocking(P, Poll::first()).expect("nothing is damaged");
    let records = poll();
    let (leases, bytes, copied) = lent(client);
    assert!(leases > 0 && bytes >= records.len() && copied == 0, "{leases}, {bytes}, {copied}");
    let owned = records.to_owned();
    assert_eq!(lent(client), (leases, bytes, 0), "the records still hold theirs");
    assert_eq!((facts(&owned), owned.slices().len()), (facts(&records), 1));
    assert!(all(&owned) == all(&records), "the bytes are the same");
    assert!(all(&owned) == sent, "and are those of the log");
    let place = |records: &Records| records.slices()[0].as_ptr_range();
    let (theirs, ours) = (place(&records), place(&owned));
    assert!(theirs.end <= ours.start || ours.end <= theirs.start, "memory of its own");
    drop(records);
    assert_eq!(lent(client), (0, 0, 0), "all buffers are at home, and a copy is out");
    owned
}

/// From the tail in memory, and from files.
#[test]
fn a_copy_sends_the_buffers_home_and_keeps_the_bytes() {
    let dir = fresh_dir("views_copied");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    for tag in 0..20 {
        client.append_blocking(P, batch(tag, 3, 3_000), Ack::Written).expect("it fits");
    }
    let records = client.poll_blocking(P, Poll::first()).expect("nothing is damaged");
    let (sent, stored) = (all(&records), batches(&records));
    assert_eq!((stored.len(), stored.concat() == sent), (20, true));
    drop(records);
    let of_memory = copy_gives_back(&client, &sent);
    engine.close_blocking().expect("nothing is wrong");

    let (engine, client) = reopened(&dir, 1);
    let of_files = copy_gives_back(&client, &sent);
    assert!(client.totals_blocking().expect("it is open").shards[0].counts.disk_reads > 0);
    engine.close_blocking().expect("nothing is wrong");
    // The shard and its buffers are gone.
    assert!(all(&of_memory) == sent && batches(&of_memory) == stored);
    assert!(all(&of_files) == sent && batches(&of_files) == stored);
}

/// Above the budget the engine copies by itself: the same bytes, and no lease more.
#[test]
fn above_the_budget_views_are_copies_and_later_polls_get_views_again() {
    let dir = fresh_dir("views_budget");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    for tag in 0..20 {
        client.append_blocking(P, batch(tag, 3, 3_000), Ack::Written).expect("it fits");
    }
    engine.close_blocking().expect("nothing is wrong");
    let few = Limits { leases: 2, ..small() };
    let engine = builder(&dir, 1).limits(few).open().expect("it was closed");
    let client = engine.client();
    let poll = || client.poll_blocking(P, Poll::first().max_messages(3)).expect("it is served");
    let mut kept = vec![poll()];
    let one = all(&kept[0]);
    while lent(&client).2 == 0 {
        assert!(kept.len() < 4, "two leases are all there are");
        kept.push(poll());
    }
    let out = lent(&client);
    assert_eq!(out.0, 2, "the limit");
    kept.push(poll());
    let more = lent(&client);
    assert!((more.0, more.1) == (out.0, out.1) && more.2 > out.2, "{more:?} after {out:?}");
    assert!(kept.iter().all(|records| all(records) == one), "a copy or not");
    drop(kept);
    let end = Instant::now() + Duration::from_secs(10);
    while lent(&client).0 > 0 {
        assert!(Instant::now() < end, "they come home: {:?}", lent(&client));
    }
    let view = poll();
    assert_eq!((lent(&client).0 > 0, lent(&client).2), (true, more.2), "lent again");
    drop(view);
    engine.close_blocking().expect("nothing is wrong");
}
