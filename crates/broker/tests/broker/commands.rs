//! Nothing but a greeting is answered before a login: every operation and every code there is.

use crate::client::Client;
use crate::running::{PASSWORD, Running};

/// What a stranger may get.
#[derive(Debug, PartialEq, Eq)]
enum Got {
    Pong,
    Unauthenticated,
    PutOut(u8),
    /// Passed over: nothing, until something else is asked.
    Nothing,
}

/// The answer to `frame`, told apart from that to the greeting behind it.
fn got(client: &mut Client, frame: &[u8]) -> Got {
    let mut greeting = client.frame(2, 1, &[]);
    // The reply gives the time back.
    greeting[160..168].copy_from_slice(&77_u64.to_le_bytes());
    client.send_raw(&[frame, &greeting].concat());
    let reply = client.receive();
    if reply.command() == 8 && reply.header[192..200] == 77_u64.to_le_bytes() {
        return Got::Nothing;
    }
    let answer = match (reply.command(), reply.body.len()) {
        (13, 0) => Got::PutOut(reply.eviction()),
        (8, 0) if reply.status() == 40 => Got::Unauthenticated,
        (8, 0) if reply.status() == 0 => Got::Pong,
        _ => panic!("a stranger was told {reply:?}"),
    };
    assert_eq!(client.receive().status(), 0, "the greeting");
    answer
}

#[test]
fn every_operation_wants_a_login() {
    let broker = Running::start();
    let mut client = broker.connect();
    let known: Vec<u8> = (128..=149).chain(160..=162).collect();
    for operation in 0..=255_u8 {
        let expected = match operation {
            1 => Got::PutOut(15),
            // A ping among questions comes below.
            2 => Got::Unauthenticated,
            // Nobody is logged in then, as before.
            3 => Got::Pong,
            known_one if known.contains(&known_one) => Got::PutOut(1),
            _ => Got::Nothing,
        };
        for body in [&[][..], &[0; 40], &[255; 300]] {
            let frame = client.frame(operation, 0, body);
            assert_eq!(got(&mut client, &frame), expected, "operation {operation}");
        }
    }
    client.log_in(PASSWORD).done();
    assert!(client.question(201, &[]).body.is_empty(), "nothing was made");
}

#[test]
fn every_question_but_a_greeting_wants_a_login() {
    let broker = Running::start();
    let mut client = broker.connect();
    let codes = (0..1000_u32).chain([u32::MAX, 1 << 16, 1 << 31]);
    for code in codes {
        let expected = match code {
            1 => Got::Pong,
            // Logins of an older protocol.
            38 | 44 => Got::PutOut(15),
            _ => Got::Unauthenticated,
        };
        let frame = client.frame(2, code, &[1, 1, 4, 0, 0, 0, 0]);
        assert_eq!(got(&mut client, &frame), expected, "code {code}");
    }
}
