//! Figures as one JSON document.

use std::io;

use super::Stats;
use super::histogram::Histogram;
use crate::json::{self, List, Object, Out};

/// The version of the document.
const SCHEMA: u64 = 1;

/// Writes everything.
pub(super) fn write(stats: &Stats, out: Out<'_>) -> io::Result<()> {
    let mut object = Object::begin(&mut *out)?;
    object.number("schema", SCHEMA)?;
    object.number("batches", stats.batches)?;
    object.number("messages", stats.messages)?;
    object.number("bytes", stats.bytes)?;
    object.number("payload_bytes", stats.payload_bytes)?;
    object.number("user_header_bytes", stats.user_header_bytes)?;
    object.maybe("first_offset", stats.offsets.map(|range| range.0))?;
    object.maybe("last_offset", stats.offsets.map(|range| range.1))?;
    object.maybe("first_timestamp", stats.times.map(|range| range.0))?;
    object.maybe("last_timestamp", stats.times.map(|range| range.1))?;
    object.number("time_went_back", stats.time_went_back)?;
    object.number("from_the_future", stats.from_the_future)?;
    json::float(object.field("payload_entropy_bits")?, (stats.entropy_bits() * 1e4).round() / 1e4)?;
    let mut list = List::begin(object.field("histograms")?)?;
    for (name, _, unit, histogram) in stats.histograms() {
        one(list.item()?, name, unit.word(), histogram)?;
    }
    list.end()?;
    let mut rate = Object::begin(object.field("bytes_per_second")?)?;
    rate.maybe("start_timestamp", stats.rate.start())?;
    rate.number("step_us", stats.rate.width_us())?;
    let mut values = List::begin(rate.field("values")?)?;
    for value in stats.rate.rates() {
        write!(values.item()?, "{value}")?;
    }
    values.end()?;
    rate.end()?;
    object.end()?;
    out.write_all(b"\n")
}

fn one(out: Out<'_>, name: &str, unit: &str, histogram: &Histogram) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    object.text("name", name)?;
    object.text("unit", unit)?;
    object.number("count", histogram.count)?;
    let some = |value: u64| (histogram.count > 0).then_some(value);
    object.maybe("min", some(histogram.min))?;
    object.maybe("max", some(histogram.max))?;
    object.maybe("mean", some(histogram.mean()))?;
    object.maybe("p50", some(histogram.percentile(50)))?;
    object.maybe("p90", some(histogram.percentile(90)))?;
    object.maybe("p99", some(histogram.percentile(99)))?;
    let mut buckets = List::begin(object.field("buckets")?)?;
    for (from, to, count) in histogram.powers() {
        let mut bucket = Object::begin(buckets.item()?)?;
        bucket.number("from", from)?;
        bucket.number("to", to)?;
        bucket.number("count", count)?;
        bucket.end()?;
    }
    buckets.end()?;
    object.end()
}
