//! There and back.

use corelog::{Ack, Poll, TopicConfig};

use crate::support::{P, batch, builder, fresh_dir};

#[test]
fn what_was_appended_is_polled_back_also_after_a_reopen() {
    let dir = fresh_dir("first");
    let engine = builder(&dir, 2).open().expect("a fresh directory");
    let client = engine.client();
    client.create_topic_blocking(0, 0, TopicConfig::default()).expect("a new topic");
    let appended = client.append_blocking(P, batch(1, 3, 100), Ack::Written).expect("it fits");
    assert_eq!((appended.base_offset, appended.message_count), (0, 3));
    let records = client.poll_blocking(P, Poll::offset(0)).expect("it is there");
    assert_eq!((records.messages(), records.next_offset()), (3, 3));
    drop(records);
    engine.close_blocking().expect("nothing is wrong");

    let engine = builder(&dir, 3).open().expect("what was closed opens");
    assert!(engine.opened().not_clean.is_empty(), "{:?}", engine.opened());
    let client = engine.client();
    let records = client.poll_blocking(P, Poll::first()).expect("it is still there");
    assert_eq!((records.messages(), records.next_offset()), (3, 3));
}
