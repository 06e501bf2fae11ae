//! On a file system that refuses O_DIRECT: an error that says what to do, or, where the embedder
//! asked for it, the page cache, said aloud.

use std::fs;

use corelog::error::{DirectIoError, OpenError, StartError};
use corelog::machine::DirectIo;
use corelog::{Ack, TopicConfig};

use crate::refusing_fs;
use crate::support::{P, Sent, assert_same, batch, builder, fresh_dir, poll_all};

#[test]
fn it_is_refused_by_name_or_goes_on_aloud() {
    let mount_point = fresh_dir("no_direct_io");
    fs::create_dir_all(&mount_point).expect("the target is writable");
    let mounted = refusing_fs::mount(&mount_point);
    let dir = mount_point.join("data");

    let error = builder(&dir, 1).open().map(drop).expect_err("O_DIRECT is required by default");
    let refused =
        matches!(error, OpenError::Start(StartError::DirectIo(DirectIoError::Refused { .. })));
    assert!(refused, "{error:?}");
    let text = error.to_string();
    for part in [dir.to_str().expect("UTF-8"), "fuse", "O_DIRECT", "DirectIo::Preferred"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }

    let preferred = || builder(&dir, 1).direct_io(DirectIo::Preferred).open();
    let engine = preferred().expect("the page cache will do");
    assert!(engine.opened().without_direct_io);
    let client = engine.client();
    let config = TopicConfig { segment_bytes: 1 << 20, ..TopicConfig::default() };
    crate::support::create_topic(&client, config);
    let append = |tag| {
        let bytes = batch(tag, 2, 20_000);
        let ack = if tag % 3 == 0 { Ack::Durable } else { Ack::Written };
        let appended = client.append_blocking(P, bytes.clone(), ack).expect("it fits");
        Sent { bytes, appended }
    };
    let sent: Vec<_> = (0..60).map(append).collect();
    assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
    let stats = client.stats_blocking().expect("it is open");
    assert!(!stats.direct_io, "and the statistics say so");
    engine.close_blocking().expect("nothing is wrong");

    let engine = preferred().expect("it opens again");
    assert!(engine.opened().not_clean.is_empty(), "{:?}", engine.opened());
    assert_same(P, &sent, &poll_all(&engine.client(), P, 0, 1 << 20));
    engine.close_blocking().expect("nothing is wrong");
    drop(mounted);
}
