//! The feature `metrics`: what a recorder gets, on a real engine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use corelog::metrics::Publisher;
use corelog::{Ack, BatchBuilder, Client, Engine, Limits, Message, PartitionId, Poll, TopicConfig};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// Name and labels of a series.
type Series = (String, Vec<(String, String)>);

/// Keeps everything.
#[derive(Default)]
struct Keeps {
    described: Mutex<BTreeMap<String, Option<Unit>>>,
    values: Mutex<BTreeMap<Series, Arc<Value>>>,
}

#[derive(Default)]
struct Value {
    counter: AtomicU64,
    gauge: Mutex<Option<f64>>,
    times: Mutex<Vec<f64>>,
    kind: OnceLock<&'static str>,
}

impl CounterFn for Value {
    fn increment(&self, value: u64) {
        self.counter.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, _: u64) {
        panic!("several engines would fight over it");
    }
}

impl GaugeFn for Value {
    fn increment(&self, _: f64) {
        panic!("gauges are set");
    }

    fn decrement(&self, _: f64) {
        panic!("gauges are set");
    }

    fn set(&self, value: f64) {
        *self.gauge.lock().unwrap() = Some(value);
    }
}

impl HistogramFn for Value {
    fn record(&self, value: f64) {
        self.times.lock().unwrap().push(value);
    }
}

impl Keeps {
    fn value(&self, key: &Key, kind: &'static str) -> Arc<Value> {
        assert!(self.described.lock().unwrap().contains_key(key.name()), "{key:?}");
        let labels = key.labels().map(|label| (label.key().into(), label.value().into())).collect();
        let mut values = self.values.lock().unwrap();
        let value = values.entry((key.name().to_owned(), labels)).or_default();
        assert_eq!(*value.kind.get_or_init(|| kind), kind, "{key:?}");
        Arc::clone(value)
    }

    fn describe(&self, key: KeyName, unit: Option<Unit>) {
        let before = self.described.lock().unwrap().insert(key.as_str().to_owned(), unit);
        assert!(before.is_none(), "{key:?} was described before");
    }

    fn of(&self, name: &str, labels: &[(&str, &str)]) -> Arc<Value> {
        let label = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let series = (name.to_owned(), labels.iter().map(label).collect());
        let values = self.values.lock().unwrap();
        Arc::clone(values.get(&series).unwrap_or_else(|| panic!("no {series:?}")))
    }

    fn counter(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.of(name, labels).counter.load(Ordering::Relaxed)
    }
}

impl Recorder for Keeps {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(key, unit);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(key, unit);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(key, unit);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.value(key, "counter"))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.value(key, "gauge"))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.value(key, "histogram"))
    }
}

const P: PartitionId = PartitionId::new(0, 0, 0);
const SHARD: (&str, &str) = ("shard", "0");

fn open(name: &str) -> (Engine, Client) {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("metrics").join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir).unwrap();
    }
    std::fs::create_dir_all(dir.parent().unwrap()).unwrap();
    let limits = Limits { registered_bytes: 1 << 20, file_threads: 1, ..Limits::default() };
    let engine = Engine::builder(dir).shards(1).pin(false).limits(limits).open().unwrap();
    let client = engine.client();
    client.catalog().create_stream("only").wait().unwrap();
    client.catalog().create_topic(0, "topic", TopicConfig::default()).wait().unwrap();
    (engine, client)
}

fn append(client: &Client, messages: u32) -> u64 {
    let mut batch = BatchBuilder::new();
    (0..messages).for_each(|_| batch.push(Message::new(b"hello")).unwrap());
    let batch = batch.finish().unwrap();
    let len = batch.len() as u64;
    client.append_blocking(P, batch, Ack::Durable).unwrap();
    len
}

/// The document's table: name, kind, labels.
fn listed() -> BTreeSet<[String; 3]> {
    let document = include_str!("../../../docs/operations.md");
    let rows = document.lines().filter(|line| line.starts_with("| `corelog_"));
    let cells = rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        [cells[1], cells[2], cells[3]].map(|cell| cell.replace('`', ""))
    });
    cells.collect()
}

#[test]
fn the_document_lists_every_metric_and_no_other() {
    let (engine, client) = open("listed");
    let (keeps, mut publisher) = (Keeps::default(), Publisher::new().partitions());
    let stats = client.stats_blocking().unwrap();
    metrics::with_local_recorder(&keeps, || publisher.publish(&stats));
    let row = |((name, labels), value): (&Series, &Arc<Value>)| {
        let labels: Vec<_> = labels.iter().map(|(key, _)| key.as_str()).collect();
        [name.clone(), value.kind.get().unwrap().to_string(), labels.join(", ")]
    };
    let rows: BTreeSet<_> = keeps.values.lock().unwrap().iter().map(row).collect();
    assert_eq!(rows, listed());
    let described = keeps.described.lock().unwrap();
    for [name, kind, _] in rows {
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        let unit = described[&name].unwrap();
        let stem = name.trim_end_matches("_total");
        assert_eq!(stem.ends_with("_bytes"), unit == Unit::Bytes, "{name}");
        assert_eq!(stem.ends_with("_seconds"), unit == Unit::Seconds, "{name}");
    }
    engine.close_blocking().unwrap();
}

#[test]
fn a_recorder_gets_what_is_new() {
    let (engine, client) = open("new");
    let (keeps, mut publisher) = (Keeps::default(), Publisher::new());
    let mut publish = || {
        let totals = client.totals_blocking().unwrap();
        metrics::with_local_recorder(&keeps, || publisher.publish(&totals));
    };
    publish();
    assert_eq!(keeps.counter("corelog_append_messages_total", &[SHARD]), 0, "it is there");
    assert!(!keeps.values.lock().unwrap().keys().any(|(name, _)| name.contains("_partition_")));
    let mut bytes = append(&client, 3);
    publish();
    publish();
    assert_eq!(keeps.counter("corelog_append_messages_total", &[SHARD]), 3);
    bytes += append(&client, 2);
    drop(client.poll_blocking(P, Poll::first()).unwrap());
    publish();
    assert_eq!(keeps.counter("corelog_append_batches_total", &[SHARD]), 2);
    assert_eq!(keeps.counter("corelog_append_messages_total", &[SHARD]), 5);
    assert_eq!(keeps.counter("corelog_append_bytes_total", &[SHARD]), bytes);
    assert_eq!(keeps.counter("corelog_poll_messages_total", &[SHARD]), 5);
    assert_eq!(*keeps.of("corelog_partitions", &[SHARD]).gauge.lock().unwrap(), Some(1.0));
    let times = keeps.of("corelog_append_seconds", &[SHARD, ("ack", "durable")]);
    let times = times.times.lock().unwrap().clone();
    assert_eq!(times.len(), 2, "each time once");
    assert!(times.iter().all(|time| (1e-7..60.0).contains(time)), "{times:?}");
    assert_eq!(keeps.described.lock().unwrap()["corelog_append_seconds"], Some(Unit::Seconds));
    engine.close_blocking().unwrap();
}

#[test]
fn counters_never_go_back_whatever_comes_and_goes() {
    let keeps = Keeps::default();
    for life in 1..=2 {
        let (engine, client) = open("lives");
        let mut publisher = Publisher::new().label("engine", "a").partitions();
        let mut publish = || {
            let stats = client.stats_blocking().unwrap();
            metrics::with_local_recorder(&keeps, || publisher.publish(&stats));
        };
        let labels = [("engine", "a"), SHARD];
        let of_partition = [("engine", "a"), ("stream", "0"), ("topic", "0"), ("partition", "0")];
        append(&client, 4);
        publish();
        assert_eq!(keeps.counter("corelog_append_messages_total", &labels), 5 * life - 1);
        // The partition begins a new life, with counts from 0.
        client.catalog().purge_topic(0, 0).wait().unwrap();
        publish();
        append(&client, 1);
        publish();
        assert_eq!(keeps.counter("corelog_append_messages_total", &labels), 5 * life);
        let name = "corelog_partition_append_messages_total";
        assert_eq!(keeps.counter(name, &of_partition), 5 * life);
        let offset = keeps.of("corelog_partition_appended_offset", &of_partition);
        assert_eq!(*offset.gauge.lock().unwrap(), Some(1.0));
        engine.close_blocking().unwrap();
        keeps.described.lock().unwrap().clear();
    }
}
