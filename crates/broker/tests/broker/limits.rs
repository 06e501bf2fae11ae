//! Clients that are slow, silent or many: they are ended or wait, and the others are served.

use std::io::ErrorKind;
use std::time::Duration;

use corelog_broker::{ClientsMay, Config};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::Client;
use crate::exposition::metric;
use crate::messages::{From, ME, batch, create, poll_body, polled, send, send_body, to};
use crate::running::Running;

/// Short, where a test waits for it.
const SHORT: Duration = Duration::from_millis(300);

fn with(change: impl Fn(&mut ClientsMay) + 'static) -> Running {
    Running::start_with(move |config: &mut Config| {
        config.shards = Some(1);
        config.metrics = Some("127.0.0.1:0".parse().unwrap());
        change(&mut config.clients);
    })
}

/// Waits until the broker has ended this connection, without an answer.
fn is_ended(client: &mut Client) {
    let kind = client.try_receive().unwrap_err().kind();
    assert_ne!(kind, ErrorKind::WouldBlock, "it is still there");
}

#[test]
fn who_says_nothing_is_ended_and_who_does_is_not() {
    let broker = with(|may| may.idle_timeout = 4 * SHORT);
    let mut silent = broker.log_in();
    let mut talks = broker.log_in();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(talks.question(1, &[]).status(), 0);
                std::thread::sleep(SHORT / 10);
            }
        });
        is_ended(&mut silent);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(talks.question(201, &[]).status(), 0);
}

#[test]
fn who_does_not_log_in_may_not_stay_whatever_it_sends() {
    let broker = with(|may| may.login_timeout = SHORT);
    let mut known = broker.log_in();
    let mut stranger = broker.connect();
    let ping = stranger.frame(2, 1, &[]);
    let mut pongs = 0;
    let error = loop {
        stranger.send_raw_or_end(&ping);
        match stranger.try_receive() {
            Ok(_) => pongs += 1,
            Err(error) => break error.kind(),
        }
        std::thread::sleep(SHORT / 20);
    };
    assert!(pongs > 0 && error != ErrorKind::WouldBlock, "{pongs} {error}");
    std::thread::sleep(2 * SHORT);
    assert_eq!(known.question(201, &[]).status(), 0, "one that has may stay");
}

/// Bytes that drip in are no progress: the frame has to be whole.
#[test]
fn a_frame_that_is_not_whole_in_time_is_the_last_one() {
    let broker = with(|may| may.frame_timeout = SHORT);
    for cut in [1, 255, 256, 300] {
        let mut client = broker.log_in();
        let frame = client.frame(160, 0, &[7; 100]);
        client.send_raw(&frame[..cut]);
        is_ended(&mut client);
    }
    let mut drips = broker.log_in();
    let frame = drips.frame(160, 0, &[7; 60_000]);
    let mut other = broker.log_in();
    let ended = frame.chunks(1).any(|byte| {
        std::thread::sleep(SHORT / 50);
        assert_eq!(other.question(1, &[]).status(), 0);
        !drips.send_raw_or_end(byte)
    });
    assert!(ended, "it was let go on");
}

#[test]
fn who_does_not_take_a_reply_is_ended() {
    let broker = with(|may| may.reply_timeout = SHORT);
    let mut client = broker.log_in();
    create(&mut client, 1, &[]);
    let payload = "x".repeat(1 << 20);
    for _ in 0..8 {
        assert_eq!(send(&mut client, &to(0), &[&payload]).status(), 0);
    }
    let mut slow = broker.log_in();
    let poll = slow.frame(2, 100, &poll_body(&ME, Some(0), From::First, 8, false));
    // More than sockets hold, at any rate.
    let ended = (0..1000).any(|_| {
        std::thread::sleep(SHORT / 10);
        assert_eq!(client.question(1, &[]).status(), 0, "others are served");
        !slow.send_raw_or_end(&poll)
    });
    assert!(ended, "it was never ended");
}

#[test]
fn a_thousand_that_do_nothing_are_in_nobodys_way() {
    // Both ends of them are in this process, and half of the files is the engine's.
    let files = getrlimit(Resource::Nofile);
    let enough = files.maximum.unwrap_or(u64::MAX).min(8192);
    assert!(enough >= 4096, "raise the hard limit of open files, which is {enough}");
    let current = files.current.unwrap_or(u64::MAX).max(enough);
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..files }).unwrap();
    let broker = Running::start();
    let idle: Vec<Client> = (0..1000).map(|_| broker.connect()).collect();
    let mut client = broker.log_in();
    create(&mut client, 2, &[]);
    for number in 0..200 {
        assert_eq!(send(&mut client, &to(number % 2), &["x"]).status(), 0);
    }
    let all = client.question(100, &poll_body(&ME, Some(1), From::First, 1000, false));
    assert_eq!(polled(&all).messages.len(), 100);
    for mut client in idle.into_iter().step_by(100) {
        assert_eq!(client.question(1, &[]).status(), 0, "they are there");
    }
}

#[test]
fn there_are_as_many_connections_as_there_may_be() {
    for (connections, per_shard) in [(3, usize::MAX), (100, 3)] {
        let broker = with(move |may| {
            (may.connections, may.connections_per_shard) = (connections, per_shard);
        });
        let mut three = [(); 3].map(|()| broker.log_in());
        is_ended(&mut broker.connect());
        assert!(three.iter_mut().all(|client| client.question(1, &[]).status() == 0));
        drop(three);
        // One that goes makes room, a little later.
        while broker.connect().try_question(1, &[]).is_err() {}
    }
}

#[test]
fn a_frame_beyond_the_limit_ends_its_connection() {
    let broker = with(|may| may.frame_bytes = 100_000);
    let mut client = broker.log_in();
    create(&mut client, 1, &[]);
    let batch = batch(&[&"x".repeat(90_000)]);
    assert_eq!(client.ask(160, &send_body(&to(0), 1, &batch)).status(), 0);
    let frame = client.frame(160, 0, &[7; 100_000]);
    client.send_raw(&frame[..256]);
    is_ended(&mut client);
}

/// Frames above a certain size share what memory there is: the second one waits for the first one,
/// small ones do not, and one that stands still in the way of another one is ended.
#[test]
fn large_frames_wait_for_memory_and_small_ones_do_not() {
    let broker = with(|may| (may.frame_memory, may.frame_timeout) = (1 << 20, HOUR));
    let mut small = broker.log_in();
    create(&mut small, 1, &[]);
    let batch = batch(&[&"x".repeat(900_000)]);
    let body = send_body(&to(0), 1, &batch);
    let (mut first, mut second) = (broker.log_in(), broker.log_in());
    let frame = first.frame(160, 0, &body);
    first.send_raw(&frame[..frame.len() - 1]);
    while metric(&broker, "corelog_broker_memory_bytes", FRAMES) == 0.0 {}
    let other = second.frame(160, 0, &body);
    std::thread::scope(|scope| {
        let sent = scope.spawn(move || {
            second.send_raw(&other);
            second.receive().status()
        });
        for _ in 0..100 {
            assert_eq!(send(&mut small, &to(0), &["y"]).status(), 0);
        }
        assert_eq!(sent.join().unwrap(), 0, "in the end it has its turn");
    });
    is_ended(&mut first);
    assert_eq!(metric(&broker, "corelog_broker_memory_waits_total", FRAMES), 1.0);
    assert_eq!(metric(&broker, ENDED, &["why=\"slow_frame\""]), 1.0);
}

const ENDED: &str = "corelog_broker_connections_ended_total";
const FRAMES: &[&str] = &["what=\"frames\""];
const HOUR: Duration = Duration::from_secs(3600);

/// Frames of the usual size have an end, too, however many clients begin one each; what comes in a
/// connection's own memory goes on, and so do large frames.
#[test]
fn frames_that_are_begun_by_many_have_an_end() {
    let broker = with(|may| (may.frame_memory, may.frame_timeout) = (1 << 20, HOUR));
    let mut other = broker.log_in();
    create(&mut other, 1, &[]);
    let body = send_body(&to(0), 1, &batch(&[&"x".repeat(60_000)]));
    let mut begun: Vec<Client> = (0..4).map(|_| broker.log_in()).collect();
    for client in &mut begun {
        let frame = client.frame(160, 0, &body);
        client.send_raw(&frame[..frame.len() - 1]);
    }
    let in_use = || metric(&broker, "corelog_broker_memory_bytes", FRAMES);
    while in_use() < 4.0 * 60_000.0 {}
    // The fifth one would be beyond a quarter of the memory.
    let mut waits = broker.log_in();
    let frame = waits.frame(160, 0, &body);
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| {
            waits.send_raw(&frame);
            waits.receive().status()
        });
        while metric(&broker, "corelog_broker_memory_waits_total", FRAMES) == 0.0 {}
        assert!(in_use() <= f64::from(256 << 10), "{}", in_use());
        for _ in 0..100 {
            assert_eq!(send(&mut other, &to(0), &["y"]).status(), 0);
        }
        let large = "z".repeat(200_000);
        assert_eq!(send(&mut other, &to(0), &[&large]).status(), 0);
        assert_eq!(sent.join().unwrap(), 0, "in the end it has its turn");
    });
    // Those that stood still in its way were ended.
    assert!(metric(&broker, ENDED, &["why=\"slow_frame\""]) >= 1.0);
}

/// What polls may get is taken before they begin, so that all replies together stay below their
/// limit, whoever takes them or not.
#[test]
fn replies_never_take_more_than_their_memory() {
    let broker = with(|may| (may.reply_memory, may.reply_timeout) = (1 << 20, HOUR));
    let mut client = broker.log_in();
    create(&mut client, 1, &[]);
    let payload = "x".repeat(100_000);
    for _ in 0..40 {
        assert_eq!(send(&mut client, &to(0), &[&payload]).status(), 0);
    }
    let body = poll_body(&ME, Some(0), From::First, 40, false);
    let mut slow: Vec<Client> = (0..8).map(|_| broker.log_in()).collect();
    for client in &mut slow {
        // More than sockets hold.
        let polls = client.frame(2, 100, &body).repeat(16);
        client.send_raw(&polls);
    }
    let mut most = 0.0_f64;
    for _ in 0..200 {
        most = most.max(metric(&broker, "corelog_broker_memory_bytes", &["what=\"replies\""]));
        assert_eq!(client.question(1, &[]).status(), 0, "others are served");
    }
    assert!((500_000.0..=f64::from(1 << 20)).contains(&most), "{most}");
}

#[test]
fn an_address_that_guesses_passwords_is_not_heard() {
    let broker = with(|may| may.failed_logins = 5);
    let mut known = broker.log_in();
    for number in 0..5 {
        assert_eq!(broker.connect().log_in(&format!("guess {number}")).eviction(), 9);
    }
    // Whether it is right or wrong: nobody looks, and the client may try again later.
    for password in ["guess", crate::running::PASSWORD] {
        assert_eq!(broker.connect().log_in(password).result(), 58, "{password}");
    }
    assert_eq!(metric(&broker, "corelog_broker_logins_total", &["result=\"busy\""]), 2.0);
    assert_eq!(known.question(201, &[]).status(), 0, "who is in stays in");
}

/// Replies that are not taken are no reason to read more and more for others.
#[test]
fn polls_wait_while_replies_are_not_taken() {
    let broker = with(|may| (may.reply_memory, may.reply_timeout) = (1 << 20, HOUR));
    let mut client = broker.log_in();
    create(&mut client, 1, &[]);
    let payload = "x".repeat(1 << 20);
    for _ in 0..8 {
        assert_eq!(send(&mut client, &to(0), &[&payload]).status(), 0);
    }
    let body = poll_body(&ME, Some(0), From::First, 8, false);
    let mut slow: Vec<Client> = (0..4).map(|_| broker.log_in()).collect();
    for client in &mut slow {
        let poll = client.frame(2, 100, &body).repeat(4);
        client.send_raw(&poll);
    }
    // What is no poll goes on; and a poll in the end, as those that stand still are ended for it.
    for _ in 0..100 {
        assert_eq!(send(&mut client, &to(0), &["y"]).status(), 0);
    }
    let poll = client.question(100, &poll_body(&ME, Some(0), From::First, 1, false));
    assert_eq!(polled(&poll).messages.len(), 1);
    assert!(metric(&broker, "corelog_broker_memory_waits_total", &["what=\"replies\""]) >= 1.0);
    assert!(metric(&broker, ENDED, &["why=\"slow_reply\""]) >= 1.0);
}
