//! The command-line client, driven through the commands of the README and through most others.

use std::process::Command;

use corelog_interop::{Broker, PASSWORD, USER};

/// Runs the client against `broker` and answers what it printed.
fn iggy(broker: &Broker, args: &str) -> Result<String, String> {
    let client = std::env::var("CORELOG_IGGY_CLI")
        .expect("CORELOG_IGGY_CLI is not set: run scripts/interop.sh");
    let output = Command::new(client)
        .args(["--tcp-server-address", broker.address(), "-u", USER, "-p", PASSWORD])
        .args(args.split(' '))
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if output.status.success() { Ok(text) } else { Err(text) }
}

/// A command that works and prints `expected`, in this order.
fn works(broker: &Broker, args: &str, expected: &[&str]) {
    let text = iggy(broker, args).unwrap_or_else(|text| panic!("{args}: {text}"));
    let mut rest = &text[..];
    for part in expected {
        let at = rest.find(part).unwrap_or_else(|| panic!("{args}: no {part:?} in {text}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn the_commands_of_the_readme() {
    let broker = Broker::start();
    works(&broker, "stream create shop", &["created"]);
    works(&broker, "topic create shop orders 1 none", &["created"]);
    works(&broker, "message send --partition-id 0 shop orders hello world", &["Sent messages"]);
    works(
        &broker,
        "message poll shop orders 0 --offset 0 --message-count 10",
        &["Polled 2 messages", "hello", "world"],
    );
}

#[test]
fn streams_topics_partitions_and_options() {
    let broker = Broker::start();
    works(&broker, "ping -c 2", &["sequence id: 2"]);
    works(&broker, "stream create shop", &[]);
    works(&broker, "topic create shop orders 2 gzip 1day", &["created"]);
    works(&broker, "topic create shop bills 1 none --set segment_size=1MiB", &["created"]);
    works(&broker, "topic list shop", &["orders", "gzip", "bills", "none"]);
    works(&broker, "topic update shop orders sales none", &["updated"]);
    works(&broker, "topic get shop sales", &["sales", "none"]);
    works(&broker, "partition create shop sales 3", &["Created 3 partitions"]);
    works(&broker, "partition delete shop sales 1", &["Deleted 1 partition"]);
    works(&broker, "topic get shop sales", &["Partitions count", "4"]);
    works(&broker, "stream get shop", &["shop"]);
    works(&broker, "stream update shop store", &["updated"]);
    works(&broker, "stream list", &["store"]);
    works(&broker, "options topic", &["compression_algorithm", "preallocate_segments"]);
    works(&broker, "topic purge store sales", &["purged"]);
    works(&broker, "topic delete store bills", &["deleted"]);
    works(&broker, "stream purge store", &["purged"]);
    works(&broker, "stream delete store", &["deleted"]);
    assert!(iggy(&broker, "stream delete store").is_err());
}

#[test]
fn messages_offsets_groups_and_the_broker_itself() {
    let broker = Broker::start();
    works(&broker, "stream create shop", &[]);
    works(&broker, "topic create shop orders 3 none", &[]);
    works(&broker, "message send --message-key key1 shop orders keyed", &["Sent"]);
    works(&broker, "message poll shop orders 1 --first --message-count 1", &["keyed"]);
    works(&broker, "message send shop orders balanced", &["Sent"]);
    works(&broker, "message flush shop orders 1 --fsync", &["Flushed"]);
    works(&broker, "consumer-offset set 1 shop orders 1 0", &["set to 0"]);
    works(&broker, "consumer-offset get 1 shop orders 1", &["Stored offset", "0"]);
    works(&broker, "consumer-group create shop orders g", &["created"]);
    works(&broker, "consumer-group list shop orders", &["g"]);
    works(&broker, "consumer-group get shop orders g", &["g"]);
    works(&broker, "consumer-group delete shop orders g", &["deleted"]);
    works(&broker, "stats", &["Iggy Server PID"]);
    works(&broker, "me", &["TCP"]);
    works(&broker, "client list", &["TCP"]);
    works(&broker, "cluster metadata", &["leader", "healthy"]);
    works(&broker, "user list", &["iggy"]);
    assert!(iggy(&broker, "user create other password").is_err(), "there is one user");
}
