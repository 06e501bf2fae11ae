//! What is wrong is answered with its code, and harms nobody else.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::{Client, Reply, join, name, named};
use crate::messages::{
    From, ME, STREAM, batch, create, poll_body, polled, send, send_body, to, topic,
};
use crate::running::Running;

/// Everything but a greeting wants a login.
#[test]
fn nobody_is_served_before_a_login() {
    let broker = Running::start();
    let mut client = broker.connect();
    assert_eq!(client.question(1, &[]).status(), 0, "a ping");
    for code in [10, 12, 13, 20, 22, 100, 120, 201, 9999] {
        assert_eq!(client.question(code, &[]).status(), 40, "{code}");
    }
    for operation in [128, 132, 160, 161, 162, 148] {
        assert_eq!(client.ask(operation, &[]).eviction(), 1, "{operation}");
    }
    assert_eq!(client.log_in("wrong").eviction(), 9);
    assert_eq!(client.question(201, &[]).status(), 40, "still");
    client.log_in(crate::running::PASSWORD).done();
    assert_eq!(client.question(201, &[]).status(), 0);
    assert_eq!(client.ask(3, &[]).status(), 0);
    assert_eq!(client.question(201, &[]).status(), 40, "logged out");
}

#[test]
fn logins_that_cannot_be_are_told_why() {
    let broker = Running::start();
    let mut client = broker.connect();
    let version = |version: u32| join([&version.to_le_bytes(), &name("sdk"), &name("1")]);
    let password = join([&name("iggy"), &name("iggy"), &[0; 4]]);
    let token = join([&name("a-token"), &[0; 4]]);
    let mut log_in = |body: &[u8]| client.ask(1, body).eviction();
    assert_eq!(log_in(&[]), 15);
    assert_eq!(log_in(&join([&version(11_264), &[9; 3]])), 15);
    assert_eq!(log_in(&join([&version(10 << 10), &password])), 14);
    assert_eq!(log_in(&join([&version(12 << 10), &password])), 14);
    assert_eq!(log_in(&join([&version(11_264), &token])), 10);
    // Of an older protocol.
    assert_eq!(client.question(38, &[]).eviction(), 15);
}

#[test]
fn a_batch_that_is_refused_is_answered_with_its_code() {
    let broker = Running::start();
    let mut client = broker.log_in();
    create(&mut client, 1, &[]);
    let good = batch(&["a", "b"]);
    let mut send =
        |messages: u32, batch: &[u8]| client.ask(160, &send_body(&to(0), messages, batch)).status();
    let damaged = |at: usize| {
        let mut batch = good.clone();
        batch[at] ^= 1;
        batch
    };
    assert_eq!(send(1, &good), 3, "another number of messages");
    assert_eq!(send(2, &good[..good.len() - 1]), 3, "cut");
    assert_eq!(send(2, &good[..100]), 3, "not even a header");
    assert_eq!(send(2, &damaged(60)), 3, "reserved");
    assert_eq!(send(2, &damaged(40)), 4039, "the batch's checksum");
    assert_eq!(send(2, &damaged(256 + 48)), 4027, "a message's checksum");
    assert_eq!(send(2, &[&good[..], &[0]].concat()), 3, "a byte too many");
    // Nothing of them was stored.
    assert_eq!(send(2, &good), 0);
    let all = client.question(100, &poll_body(&ME, Some(0), From::First, 10, false));
    assert_eq!(polled(&all).messages.len(), 2);
}

#[test]
fn what_is_not_there_is_told_as_the_reference_server_tells_it() {
    let broker = Running::start();
    let mut client = broker.log_in();
    create(&mut client, 1, &[]);
    let nowhere = join([&named(STREAM), &named("nothing")]);
    let no_stream = join([&named("nothing"), &named("nothing")]);
    assert_eq!(client.question(200, &named("nothing")).body, b"");
    assert_eq!(client.question(300, &nowhere).body, b"");
    assert_eq!(client.question(301, &named("nothing")).body, [0; 4]);
    assert_eq!(client.question(600, &join([&nowhere, &named("g")])).status(), 2010);
    assert_eq!(client.question(601, &no_stream).status(), 1009);
    assert_eq!(client.question(600, &join([&topic(), &named("g")])).body, b"");
    assert_eq!(client.ask(130, &named("nothing")).result(), 1009);
    assert_eq!(client.ask(134, &nowhere).result(), 2010);
    assert_eq!(client.ask(128, &name(STREAM)).result(), 1012);
    assert_eq!(client.ask(148, &join([&topic(), &named("g")])).result(), 5000);
    let segments = join([&topic(), &7_u32.to_le_bytes(), &1_u32.to_le_bytes()]);
    assert_eq!(client.ask(138, &segments).result(), 3007);
    let poll = poll_body(&ME, Some(7), From::First, 1, false);
    assert_eq!(client.question(100, &poll).status(), 3007);
    assert_eq!(send(&mut client, &to(7), &["x"]).status(), 20);
    // Options and counts.
    let unknown = [&[2, 4, 0, 0, 0][..], b"what", &[3, 1, 0, 0, 0, 1]].concat();
    assert_eq!(client.ask(128, &join([&name("s"), &unknown])).status(), 4041);
    let many = join([&named(STREAM), &1001_u32.to_le_bytes(), &name("t")]);
    assert_eq!(client.ask(132, &many).status(), 2015);
    assert_eq!(client.ask(136, &join([&topic(), &0_u32.to_le_bytes()])).status(), 2015);
    assert_eq!(client.ask(137, &join([&topic(), &5_u32.to_le_bytes()])).result(), 2019);
    // A number that cannot be is told before a place that is not there.
    for operation in [136, 137] {
        assert_eq!(client.ask(operation, &join([&no_stream, &[0; 4]])).status(), 2015);
    }
    let many = join([&named("nothing"), &1001_u32.to_le_bytes(), &name("t")]);
    assert_eq!(client.ask(132, &many).status(), 2015);
    // So is an option that no topic has, or that is fixed, or of another kind.
    let fixed = join([&[2, 13, 0, 0, 0], b"enforce_fsync", &[3, 1, 0, 0, 0, 1]]);
    let kind = join([&[2, 14, 0, 0, 0], b"message_expiry", &[3, 1, 0, 0, 0, 1]]);
    for (options, code) in [(&unknown, 4041), (&fixed, 4041), (&kind, 4042)] {
        for path in [&no_stream, &nowhere, &topic()] {
            assert_eq!(client.ask(133, &join([path, &name("t"), options])).status(), code);
        }
    }
    assert_eq!(client.ask(133, &join([&nowhere, &name("t")])).result(), 2010);
    // Bytes that are no command, and users that nobody keeps.
    assert_eq!(client.ask(128, &[]).status(), 3);
    assert_eq!(client.ask(141, &[]).status(), 5);
    assert_eq!(client.question(9999, &[]).status(), 3);
    assert_eq!(client.question(202, &[]).status(), 5);
    assert_eq!(client.question(13, &[9]).status(), 3);
}

#[test]
fn a_change_is_made_once_however_often_it_is_asked_for() {
    let broker = Running::start();
    let mut client = broker.log_in();
    let first = client.ask(128, &name("s"));
    first.done();
    // The same frame again, as a client sends it whose connection was slow.
    let again = client.frame(128, 0, &name("s"));
    client.send_raw(&again);
    assert_eq!(client.receive().body, first.body);
    // Another change under its number is no answer's.
    for (operation, body) in [(128, name("other")), (130, named("s"))] {
        let other = client.frame(operation, 0, &body);
        client.send_raw(&other);
        assert_eq!(client.receive().status(), 3, "{operation}");
    }
    assert_eq!(client.question(201, &[]).body.len(), first.body.len() - 4, "one stream");
}

#[test]
fn a_checksum_that_does_not_fit_is_refused() {
    let broker = Running::start();
    let mut client = broker.log_in();
    let mut frame = client.frame(128, 0, &name("s"));
    frame[144] ^= 1;
    client.send_raw(&frame);
    assert_eq!(client.receive().status(), 4);
    assert!(client.question(201, &[]).body.is_empty(), "nothing was made");
}

#[test]
fn bytes_that_are_no_frame_end_their_connection_and_no_other() {
    let broker = Running::start();
    let mut other = broker.log_in();
    for size in [0_u32, 255, (64 << 20) + 1, u32::MAX] {
        let mut client = broker.connect();
        let mut frame = client.frame(2, 1, &[]);
        frame[48..52].copy_from_slice(&size.to_le_bytes());
        client.send_raw(&frame);
        assert!(client.try_receive().is_err(), "{size}");
    }
    // A frame that is whole and says nothing is passed over.
    let mut client = broker.connect();
    let mut frame = client.frame(2, 1, &[7; 33]);
    frame[60] = 99;
    client.send_raw(&frame);
    assert_eq!(client.question(1, &[]).status(), 0);
    // One that ends in the middle.
    let half = client.frame(2, 1, &[7; 33]);
    client.send_raw(&half[..280]);
    drop(client);
    assert_eq!(other.question(1, &[]).status(), 0);
}

#[test]
fn who_logs_in_elsewhere_is_fenced_here() {
    let broker = Running::start();
    let mut new = broker.log_in();
    create(&mut new, 1, &[]);
    send(&mut new, &to(0), &["a"]);
    let path = join([&ME, &topic(), &[1, 0, 0, 0, 0]]);
    let store = join([&path, &[0; 8], &[1]]);
    let mut fenced = |ask: &dyn Fn(&mut Client) -> Reply| {
        let mut old = broker.connect();
        old.id = new.id;
        old.log_in(crate::running::PASSWORD).done();
        new.log_out_and_in();
        assert_eq!(old.question(1, &[]).status(), 0, "a ping");
        assert_eq!(ask(&mut old).eviction(), 7);
        assert_eq!(old.question(201, &[]).status(), 40, "it has no login any more");
    };
    fenced(&|old| old.ask(128, &name("s")));
    fenced(&|old| send(old, &to(0), &["b"]));
    fenced(&|old| old.ask(161, &store));
    fenced(&|old| old.question(100, &poll_body(&ME, Some(0), From::Next, 1, true)));
    new.ask(128, &name("s")).done();
    assert!(new.question(120, &path).body.is_empty(), "nothing was stored");
    let all = new.question(100, &poll_body(&ME, Some(0), From::First, 10, false));
    assert_eq!(polled(&all).messages.len(), 1, "nothing was sent");
}

/// Frames in pieces, and many at once, are the same frames.
#[test]
fn frames_may_come_in_pieces_and_together() {
    let broker = Running::start();
    let mut client: Client = broker.log_in();
    create(&mut client, 1, &[]);
    let body = send_body(&to(0), 1, &batch(&["a"]));
    let frame = client.frame(160, 0, &body);
    for byte in frame.chunks(7) {
        client.send_raw(byte);
    }
    assert_eq!(client.receive().status(), 0);
    let many: Vec<u8> = std::iter::repeat_n(&frame, 50).flatten().copied().collect();
    client.send_raw(&many);
    for number in 1..=50_u64 {
        assert_eq!(client.receive().body[16..24], number.to_le_bytes());
    }
}

/// Requests that never wait for anything, as fast as they go: the others have their turn.
#[test]
fn a_flood_of_requests_stops_nobody() {
    let broker = Running::start();
    let flood = broker.connect();
    let pings = flood.frame(2, 1, &[]).repeat(256);
    let (mut out, mut back) = (flood.socket(), flood.socket());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if out.write_all(&pings).is_err() {
                    break;
                }
            }
        });
        scope.spawn(|| std::io::copy(&mut back, &mut std::io::sink()));
        // On all shards.
        for _ in 0..16 {
            broker.log_in();
        }
        is_over.store(true, Ordering::Relaxed);
        let _ = flood.socket().shutdown(std::net::Shutdown::Both);
    });
}
