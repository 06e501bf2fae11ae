//! A purge that cannot be carried out: it says so, and what was to go does not come back.

use std::time::Duration;

use corelog::consumers::ConsumerKey;
use corelog::{Ack, Client, PartitionId, Poll};
use corelog_crash::content::{BatchKey, Content};
use corelog_crash::hostile::{Answer, Op, Rule};

use crate::support::{builder, create_topics, mounted, unmet};

/// A purge whose directories the disk does not keep is an error, and from then on nobody sees what
/// was stored before: neither messages nor offsets come back, now or after an opening.
#[test]
fn a_purge_that_fails_says_so_and_brings_nothing_back() {
    for op in [Op::SyncDir, Op::Rename, Op::MakeDir] {
        let mounted = mounted();
        let _watch = mounted.disk.watch(Duration::from_secs(100), format!("a purge, {op:?} fails"));
        let engine = builder(&mounted.point).open().expect("a healthy disk");
        let client = engine.client();
        create_topics(&client);
        let (id, who) = (PartitionId::new(0, 0, 0), ConsumerKey::group(7));
        let content = Content::new(7);
        let append = |client: &Client, nth| {
            let batch = content.batch(id, BatchKey::new(0, 0, nth));
            client.append_blocking(id, batch, Ack::Durable)
        };
        let offsets: Vec<_> =
            (0..20).map(|nth| append(&client, nth).expect("it fits").base_offset).collect();
        let offset = offsets[19];
        client.store_offset(id, who, offset, Ack::Durable).wait().expect("it is there");
        mounted.disk.begin(&[Rule::any(op, Answer::Errno(libc::EIO))]);
        let failed = client.catalog().purge_topic(0, 0).wait();
        let text = failed.expect_err("its directories cannot be kept").to_string();
        assert!(
            text.contains("Input/output error") && text.contains("partition 0"),
            "{op:?}: {text}"
        );
        let forgotten = |client: &Client, what: &str| {
            let stored = client.offset(id, who).wait();
            assert!(!matches!(stored, Ok(Some(_))), "{op:?}, {what}: {stored:?}");
            let served = client.poll_blocking(id, Poll::next(who));
            assert!(served.is_err() || served.is_ok_and(|got| got.is_empty()), "{op:?}, {what}");
        };
        forgotten(&client, "in trouble");
        assert_eq!(unmet(&mounted.disk), []);
        mounted.disk.end();
        forgotten(&client, "behind it");
        engine.close_blocking().expect("what is open closes in order");
        for round in 0..2 {
            let engine = builder(&mounted.point).open().expect("a healthy disk");
            let client = engine.client();
            if round == 0 {
                forgotten(&client, "opened again");
                assert_eq!(append(&client, 90).expect("it is open").base_offset, 0, "{op:?}");
            }
            let served = client.poll_blocking(id, Poll::next(who)).expect("it is open");
            assert_eq!(served.first_offset(), Some(0), "{op:?}: nothing is jumped over");
            engine.close_blocking().expect("nothing is wrong");
        }
    }
}
