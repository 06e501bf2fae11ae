//! SIGTERM under load: what was answered is there afterwards, whatever the answer was worth.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;

use crate::client::Client;
use crate::messages::{From, ME, batch, create, poll_body, polled, send_body, to};
use crate::program::{address, ended, signal, started};

/// Sends until the connection ends, and answers what was confirmed.
fn send_on(address: SocketAddr, number: usize, answered: &AtomicUsize) -> Vec<String> {
    let mut client = Client::connect(address);
    client.log_in("iggy").done();
    let mut confirmed = Vec::new();
    for turn in 0.. {
        let payload = format!("{number}.{turn}");
        let body = send_body(&to((turn % 2) as u32), 1, &batch(&[&payload]));
        // An end is one: nothing of an answer, or all of it.
        let Ok(reply) = client.try_ask(160, &body) else { break };
        assert_eq!(reply.status(), 0);
        confirmed.push(payload);
        answered.fetch_add(1, Ordering::Relaxed);
    }
    confirmed
}

#[test]
fn what_was_answered_before_a_stop_is_there_behind_it() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut process = started(directory.path(), |command| {
        command.args(["--shards", "2"]);
    });
    let address_of = address(&mut process);
    let mut client = Client::connect(address_of);
    client.log_in("iggy").done();
    create(&mut client, 2, &[]);
    let answered = AtomicUsize::new(0);
    let confirmed: Vec<String> = std::thread::scope(|scope| {
        let answered = &answered;
        let senders: Vec<_> = (0..4)
            .map(|number| scope.spawn(move || send_on(address_of, number, answered)))
            .collect();
        while answered.load(Ordering::Relaxed) < 500 {
            std::thread::yield_now();
        }
        signal(&process, Signal::TERM);
        senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect()
    });
    let said = ended(process);
    assert!(said.contains("broker_stopped") && said.contains("engine_closed"), "{said}");
    let mut process = started(directory.path(), |_| ());
    let mut client = Client::connect(address(&mut process));
    client.log_in("iggy").done();
    let mut there = BTreeSet::new();
    for partition in 0..2 {
        let mut next = 0;
        loop {
            let body = poll_body(&ME, Some(partition), From::Offset(next), 1000, false);
            let messages = polled(&client.question(100, &body)).messages;
            let Some((last, _)) = messages.last() else { break };
            next = last + 1;
            there.extend(messages.into_iter().map(|(_, payload)| payload));
        }
    }
    let lost: Vec<&String> = confirmed.iter().filter(|one| !there.contains(*one)).collect();
    assert!(lost.is_empty(), "{} of {}: {lost:?}", lost.len(), confirmed.len());
    assert!(confirmed.len() >= 500);
}

/// An idle connection is no reason to wait, and one in the middle of a frame is.
#[test]
fn a_stop_waits_for_what_is_under_way_and_a_second_signal_ends_that() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut process = started(directory.path(), |command| {
        command.args(["--stop-timeout", "1h", "--frame-timeout", "1h"]);
    });
    let address = address(&mut process);
    let mut idle = Client::connect(address);
    idle.log_in("iggy").done();
    create(&mut idle, 1, &[]);
    let (mut finishes, mut hangs) = (Client::connect(address), Client::connect(address));
    for client in [&mut finishes, &mut hangs] {
        client.log_in("iggy").done();
        let frame = client.frame(160, 0, &send_body(&to(0), 1, &batch(&["x"])));
        client.send_raw(&frame[..300]);
    }
    // Behind what they have sent, so that the broker has seen it: all are on one shard.
    assert_eq!(idle.question(1, &[]).status(), 0);
    signal(&process, Signal::TERM);
    assert!(idle.try_receive().is_err(), "idle ones are ended");
    let frame = finishes.frame(160, 0, &send_body(&to(0), 1, &batch(&["x"])));
    finishes.send_raw(&frame[300..]);
    assert_eq!(finishes.receive().status(), 0, "what was begun is answered");
    assert!(finishes.try_receive().is_err(), "and is the last one");
    // Until then the broker listens to it, lest its answer be lost.
    drop(finishes);
    assert!(process.0.try_wait().unwrap().is_none(), "it waits for the other one");
    signal(&process, Signal::TERM);
    let said = ended(process);
    assert!(said.contains("broker_stopped"), "{said}");
    // It may not have been seen yet that the one which has finished is over.
    assert!(said.contains("left=1") || said.contains("left=2"), "{said}");
    drop(hangs);
}
