//! Takes what the engine publishes. It stands on the path of one scrape at a time, so that a lock
//! around all of it does no harm.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit, with_local_recorder,
};
use corelog::metrics::Publisher;
use corelog::stats::EngineStats;

use super::text::{Families, Kind, Times, Value, labelled};

/// The engine's metrics, as they were published last.
#[derive(Default)]
pub(super) struct Published {
    publisher: Publisher,
    table: Table,
}

type Table = Arc<Mutex<Families>>;

impl Published {
    /// Takes in what is new, and hands all of it to `look`.
    pub(super) fn take<T>(&mut self, stats: &EngineStats, look: impl FnOnce(&Families) -> T) -> T {
        let recorder = Tables(Arc::clone(&self.table));
        with_local_recorder(&recorder, || self.publisher.publish(stats));
        look(&lock(&self.table))
    }
}

fn lock(table: &Table) -> MutexGuard<'_, Families> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Tables(Table);

impl Tables {
    fn describe(&self, key: &KeyName, kind: Kind, text: &SharedString) {
        lock(&self.0).family(key.as_str(), kind, text);
    }

    fn series(&self, key: &Key, kind: Kind) -> Arc<Series> {
        let labels: Vec<_> = key.labels().map(|label| (label.key(), label.value())).collect();
        let (name, labels) = (key.name().to_owned(), labelled(&labels));
        Arc::new(Series { table: Arc::clone(&self.0), name, kind, labels })
    }
}

impl Recorder for Tables {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, text: SharedString) {
        self.describe(&key, Kind::Counter, &text);
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, text: SharedString) {
        self.describe(&key, Kind::Gauge, &text);
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, text: SharedString) {
        self.describe(&key, Kind::Histogram, &text);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key, Kind::Counter))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key, Kind::Gauge))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key, Kind::Histogram))
    }
}

/// One series on its way into the table.
struct Series {
    table: Table,
    name: String,
    kind: Kind,
    labels: String,
}

impl Series {
    fn with(&self, none: Value, change: impl FnOnce(&mut Value)) {
        let mut families = lock(&self.table);
        let family = families.family(&self.name, self.kind, "");
        change(family.series.entry(self.labels.clone()).or_insert(none));
    }
}

impl CounterFn for Series {
    fn increment(&self, more: u64) {
        self.with(Value::Whole(0), |value| {
            if let Value::Whole(value) = value {
                *value = value.wrapping_add(more);
            }
        });
    }

    fn absolute(&self, now: u64) {
        self.with(Value::Whole(0), |value| *value = Value::Whole(now));
    }
}

impl GaugeFn for Series {
    fn increment(&self, more: f64) {
        self.with(Value::Real(0.0), |value| {
            if let Value::Real(value) = value {
                *value += more;
            }
        });
    }

    fn decrement(&self, less: f64) {
        GaugeFn::increment(self, -less);
    }

    fn set(&self, now: f64) {
        self.with(Value::Real(0.0), |value| *value = Value::Real(now));
    }
}

impl HistogramFn for Series {
    fn record(&self, seconds: f64) {
        self.record_many(seconds, 1);
    }

    fn record_many(&self, seconds: f64, count: usize) {
        self.with(Value::Times(Times::default()), |value| {
            if let Value::Times(times) = value {
                times.add(seconds, count as u64);
            }
        });
    }
}
