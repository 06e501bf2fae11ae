//! Metrics as a server for them reads them: by the rules of the format, each line.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::messages::{From, ME, create, poll_body, send, to};
use crate::running::Running;

fn with_metrics() -> Running {
    Running::start_with(|config| config.metrics = Some("127.0.0.1:0".parse().unwrap()))
}

/// Sends `request` and answers all that comes.
fn asked(address: SocketAddr, request: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// Status and body.
fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let answer = asked(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = format!("Content-Length: {}", body.len());
    assert!(head.lines().any(|line| line == length), "{head}");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Values by name and labels.
type Samples = BTreeMap<String, f64>;

/// Reads an exposition, strictly: names, labels, escapes, one HELP and one TYPE before the samples of
/// a family, families that are whole, no sample twice, buckets that only grow.
fn parsed(text: &str) -> Samples {
    assert!(text.ends_with('\n'), "the last line has an end");
    let (mut samples, mut seen) = (Samples::new(), HashSet::new());
    let (mut family, mut kind) = (String::new(), String::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty(), "{line}");
            assert!(seen.insert(name.to_owned()), "{name} comes twice");
            let next = lines.next().unwrap();
            let of = next.strip_prefix("# TYPE ").unwrap().split_once(' ').unwrap();
            assert_eq!(of.0, name);
            (family, kind) = (name.to_owned(), of.1.to_owned());
            assert!(["counter", "gauge", "histogram"].contains(&kind.as_str()), "{next}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let of_family = match kind.as_str() {
            "histogram" => ["_bucket", "_sum", "_count"]
                .iter()
                .any(|end| name.strip_suffix(end).is_some_and(|name| name == family)),
            _ => name == family,
        };
        assert!(of_family, "{line} in {family}");
        if let Some(labels) = series.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            check_labels(labels);
        }
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(value.is_finite() && value >= 0.0, "{line}");
        assert!(samples.insert(series.to_owned(), value).is_none(), "{series} comes twice");
    }
    samples
}

fn is_name(name: &str) -> bool {
    let first = |char: char| char.is_ascii_alphabetic() || char == '_';
    name.starts_with(first) && name.chars().all(|char| first(char) || char.is_ascii_digit())
}

/// `{a="b",c="d"}`
fn check_labels(labels: &str) {
    let mut rest = labels.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    let mut names = HashSet::new();
    loop {
        let (name, behind) = rest.split_once("=\"").unwrap();
        assert!(is_name(name) && names.insert(name), "{labels}");
        let mut chars = behind.char_indices();
        let end = loop {
            match chars.next().unwrap() {
                (_, '\\') => assert!("\\\"n".contains(chars.next().unwrap().1), "{labels}"),
                (at, '"') => break at,
                _ => {}
            }
        };
        match behind[end + 1..].strip_prefix(',') {
            Some(more) => rest = more,
            None => return assert_eq!(&behind[end + 1..], "", "{labels}"),
        }
    }
}

/// The sum of a metric of a running broker over its series that have all of `labels`.
pub(crate) fn metric(broker: &Running, name: &str, labels: &[&str]) -> f64 {
    sum(&parsed(&get(broker.broker().metrics().unwrap(), "/metrics").1), name, labels)
}

/// The sum of a metric over its series that have all of `labels`.
fn sum(samples: &Samples, name: &str, labels: &[&str]) -> f64 {
    let wanted = |series: &str| {
        series.split('{').next() == Some(name) && labels.iter().all(|label| series.contains(label))
    };
    let found: Vec<f64> =
        samples.iter().filter(|(series, _)| wanted(series)).map(|(_, value)| *value).collect();
    assert!(!found.is_empty(), "no {name} with {labels:?}");
    found.iter().sum()
}

#[test]
fn what_was_done_is_told_by_the_rules_of_the_format() {
    let broker = with_metrics();
    let address = broker.broker().metrics().unwrap();
    let empty = parsed(&get(address, "/metrics").1);
    assert_eq!(sum(&empty, "corelog_broker_connections", &[]), 0.0);
    let mut client = broker.log_in();
    create(&mut client, 2, &[]);
    for _ in 0..10 {
        assert_eq!(send(&mut client, &to(1), &["a", "b"]).status(), 0);
    }
    client.question(100, &poll_body(&ME, Some(1), From::First, 100, false));
    assert_eq!(client.ask(130, &[2, 1, b'x']).result(), 1009);
    assert_eq!(client.question(9999, &[]).status(), 3);
    assert_eq!(broker.connect().log_in("wrong").eviction(), 9);
    let (status, text) = get(address, "/metrics");
    assert_eq!(status, 200);
    let samples = parsed(&text);
    let expected: [(&str, &[&str], f64); 14] = [
        ("corelog_append_batches_total", &[], 10.0),
        ("corelog_append_messages_total", &[], 20.0),
        ("corelog_append_seconds_count", &["ack=\"appended\""], 10.0),
        ("corelog_append_seconds_bucket", &["ack=\"appended\"", "le=\"+Inf\""], 10.0),
        ("corelog_broker_requests_total", &["command=\"SendMessages\""], 10.0),
        ("corelog_broker_requests_total", &["command=\"PollMessages\""], 1.0),
        ("corelog_broker_requests_total", &["command=\"unknown\""], 1.0),
        ("corelog_broker_errors_total", &["code=\"1009\""], 1.0),
        ("corelog_broker_errors_total", &["code=\"3\""], 1.0),
        ("corelog_broker_logins_total", &["result=\"done\""], 1.0),
        ("corelog_broker_logins_total", &["result=\"refused\""], 1.0),
        ("corelog_broker_connections_accepted_total", &[], 2.0),
        ("corelog_broker_evictions_total", &[], 1.0),
        ("corelog_broker_memory_bytes", &[], 0.0),
    ];
    for (name, labels, value) in expected {
        assert_eq!(sum(&samples, name, labels), value, "{name} {labels:?}");
    }
    for name in ["corelog_broker_received_bytes_total", "corelog_broker_sent_bytes_total"] {
        assert!(sum(&samples, name, &[]) > 5_000.0, "{name}");
    }
    assert!(sum(&samples, "process_resident_memory_bytes", &[]) > 1e6);
    buckets_only_grow(&samples);
    // Counters go on, they do not begin anew.
    send(&mut client, &to(0), &["c"]);
    let later = parsed(&get(address, "/metrics?x").1);
    assert_eq!(sum(&later, "corelog_append_batches_total", &[]), 11.0);
    for (series, value) in &samples {
        let grows = series.split('{').next().unwrap().ends_with("_total");
        assert!(!grows || later[series] >= *value, "{series} went back");
    }
}

fn buckets_only_grow(samples: &Samples) {
    let mut histograms: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (series, value) in samples.iter().filter(|(series, _)| series.contains("_bucket{")) {
        let (labels, end) = series.split_once("le=\"").unwrap();
        let end = end.trim_end_matches("\"}").replace("+Inf", "inf").parse().unwrap();
        histograms.entry(labels.to_owned()).or_default().push((end, *value));
    }
    assert!(histograms.len() >= 10);
    for (labels, mut buckets) in histograms {
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(buckets.windows(2).all(|two| two[0].1 <= two[1].1), "{labels} {buckets:?}");
        assert_eq!(buckets.last().unwrap().0, f64::INFINITY);
    }
}

#[test]
fn nothing_but_two_paths_is_there() {
    let mut broker = with_metrics();
    let address = broker.broker().metrics().unwrap();
    assert_eq!(get(address, "/health"), (200, "serving\n".to_owned()));
    assert_eq!(get(address, "/").0, 404);
    assert_eq!(get(address, "/metrics/../../etc/passwd").0, 404);
    let status = |request: &str| asked(address, request).split(' ').nth(1).unwrap().to_owned();
    assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405");
    assert_eq!(status("anything\r\n\r\n"), "400");
    assert_eq!(status(&format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000))), "431");
    // Who stands in the way does so for a while only, however many they are.
    let slow: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(get(address, "/health").0, 200);
    drop(slow);
    // A broker that stops is not healthy; the figures are told to the end.
    let mut busy = broker.connect();
    let frame = busy.frame(2, 1, &[1; 100]);
    busy.send_raw(&frame[..300]);
    broker.connect().question(1, &[]);
    broker.drain();
    assert_eq!(get(address, "/health"), (503, "stopping\n".to_owned()));
    assert_eq!(sum(&parsed(&get(address, "/metrics").1), "corelog_broker_stopping", &[]), 1.0);
}
