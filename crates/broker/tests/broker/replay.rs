//! A recording of the reference server with real clients, asked again request by request: the
//! replies are the same in command, status, operation and body, but for what no two servers have in
//! common (see `shapes`).

use std::collections::HashMap;

use corelog::machine::Runtime;

use crate::client::{Client, HEADER, Reply, join, named};
use crate::recorded::{Exchange, batches, exchanges};
use crate::running::Running;
use crate::shapes::fields;

/// The poll that needs what the recording left out: the batches behind the first one.
const NEEDS_BATCHES: (u64, u64) = (0, 45);

#[test]
fn every_recorded_request_is_answered_as_it_was() {
    replay(Runtime::Glommio);
}

#[test]
fn the_other_runtime_answers_the_same() {
    replay(Runtime::Ring);
}

fn replay(runtime: Runtime) {
    let broker = Running::start_with(move |config| config.runtime = Some(runtime));
    let mut clients: HashMap<u64, Client> = HashMap::new();
    let mut compared = 0;
    for exchange in exchanges() {
        let client = clients.entry(exchange.connection).or_insert_with(|| broker.connect());
        if (exchange.connection, exchange.seq) == NEEDS_BATCHES {
            load(broker.log_in());
        }
        client.send_raw(&exchange.request);
        let reply = client.receive();
        compare(&exchange, &reply);
        compared += 1;
    }
    assert_eq!(compared, 86);
}

/// Sends what the recording left out of partition 0.
fn load(mut client: Client) {
    for batch in batches().iter().skip(1) {
        let count = &batch[48..52];
        let topic = join([&named("golden"), &named("mixed")]);
        let metadata = join([&topic, &[2, 4, 0, 0, 0, 0], count]);
        let body = join([&(metadata.len() as u32).to_le_bytes(), &metadata, batch]);
        let reply = client.ask(160, &body);
        assert_eq!(reply.status(), 0, "{reply:?}");
    }
}

fn compare(exchange: &Exchange, reply: &Reply) {
    let Exchange { connection, seq, operation, code, .. } = exchange;
    let place = format!("connection {connection}, request {seq} ({operation}/{code})");
    let expected = Reply {
        header: exchange.reply[..HEADER].to_vec(),
        body: exchange.reply[HEADER..].to_vec(),
    };
    let of = |reply: &Reply| (reply.command(), reply.status(), reply.operation());
    assert_eq!(of(reply), of(&expected), "{place}");
    let fields = |reply: &Reply| fields(*operation, *code, &reply.body);
    for (ours, theirs) in fields(reply).iter().zip(&fields(&expected)) {
        assert_eq!(ours, theirs, "{place}");
    }
    assert_eq!(fields(reply).len(), fields(&expected).len(), "{place}");
}
