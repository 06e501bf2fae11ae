//! The broker's counters as metrics. Their names stand in `docs/broker.md`.

use std::sync::atomic::Ordering;

use super::counters::{Count, Counters, ENDS};
use super::text::{Families, Kind, Value};
use crate::limits::Told;
use crate::operation::{Operation, Question};
use crate::process;
use crate::shared::Shared;
use crate::status::Status;

type Of = (&'static str, Kind, &'static str);

const ACCEPTED: Of =
    ("corelog_broker_connections_accepted_total", Kind::Counter, "Connections accepted.");
const REFUSED: Of = (
    "corelog_broker_connections_refused_total",
    Kind::Counter,
    "Connections ended at once, as there were as many as there may be.",
);
const ENDED: Of =
    ("corelog_broker_connections_ended_total", Kind::Counter, "Connections that are over, by why.");
const RECEIVED: Of =
    ("corelog_broker_received_bytes_total", Kind::Counter, "Bytes of frames received.");
const SENT: Of = ("corelog_broker_sent_bytes_total", Kind::Counter, "Bytes of frames sent.");
const REQUESTS: Of =
    ("corelog_broker_requests_total", Kind::Counter, "Requests that have an answer, by command.");
const PASSED_OVER: Of = (
    "corelog_broker_frames_passed_over_total",
    Kind::Counter,
    "Frames without an answer, as their header says nothing.",
);
const ERRORS: Of =
    ("corelog_broker_errors_total", Kind::Counter, "Answers that are errors, by code of the wire.");
const EVICTIONS: Of =
    ("corelog_broker_evictions_total", Kind::Counter, "Answers that put a client out.");
const LOGINS: Of = ("corelog_broker_logins_total", Kind::Counter, "Logins, by result.");
const MEMORY: Of = (
    "corelog_broker_memory_bytes",
    Kind::Gauge,
    "Bytes of frames and replies in use, of what there may be.",
);
const WAITS: Of = (
    "corelog_broker_memory_waits_total",
    Kind::Counter,
    "Times a frame or a reply waited for such memory.",
);
const CONNECTIONS: Of = ("corelog_broker_connections", Kind::Gauge, "Connections now.");
const STOPPING: Of =
    ("corelog_broker_stopping", Kind::Gauge, "1 from the first signal to stop, 0 before.");
const BUILD: Of = ("corelog_build_info", Kind::Gauge, "1, with the version of the broker.");

/// Puts them into `families`.
pub(super) fn put(families: &mut Families, shared: &Shared) {
    for (number, shard) in shared.counters.iter().enumerate() {
        put_shard(families, &number.to_string(), shard);
    }
    families.put(CONNECTIONS, &[], Value::Whole(shared.clients.count() as u64));
    families.put(STOPPING, &[], Value::Whole(shared.is_stopping().into()));
    families.put(BUILD, &[("version", env!("CARGO_PKG_VERSION"))], Value::Whole(1));
    put_process(families, shared);
}

fn put_shard(families: &mut Families, number: &str, of: &Counters) {
    let shard = ("shard", number);
    let mut one = |metric: Of, count: &Count| {
        families.put(metric, &[shard], Value::Whole(count.get()));
    };
    one(ACCEPTED, &of.accepted);
    one(REFUSED, &of.refused);
    one(RECEIVED, &of.received_bytes);
    one(SENT, &of.sent_bytes);
    one(PASSED_OVER, &of.passed_over);
    one(EVICTIONS, &of.evictions);
    let mut each = |metric: Of, key: &str, word: &str, count: &Count| {
        families.put(metric, &[shard, (key, word)], Value::Whole(count.get()));
    };
    for ((why, _), count) in ENDS.iter().zip(&of.ended) {
        each(ENDED, "why", why, count);
    }
    for &(operation, name) in Operation::ALL {
        // Those are questions, which follow.
        if operation != Operation::NonReplicated {
            each(REQUESTS, "command", name, &of.operations.0[usize::from(operation as u8)]);
        }
    }
    let names = Question::ALL.iter().map(|(_, name)| *name).chain(["unknown"]);
    for (name, count) in names.zip(&of.questions) {
        each(REQUESTS, "command", name, count);
    }
    for (status, count) in Status::ALL.iter().zip(&of.errors) {
        each(ERRORS, "code", &status.0.to_string(), count);
    }
    for (result, count) in ["done", "refused", "busy"].iter().zip(&of.logins) {
        each(LOGINS, "result", result, count);
    }
    for (what, told) in [("frames", &of.frames), ("replies", &of.replies)] {
        let Told { used, waits } = &**told;
        let labels = [shard, ("what", what)];
        families.put(MEMORY, &labels, Value::Whole(used.load(Ordering::Relaxed)));
        families.put(WAITS, &labels, Value::Whole(waits.load(Ordering::Relaxed)));
    }
}

/// By the names that all exporters have for them.
fn put_process(families: &mut Families, shared: &Shared) {
    let process = process::usage(shared.began);
    let metrics: [(Of, Value); 5] = [
        (
            ("process_cpu_seconds_total", Kind::Counter, "CPU time used, user and system."),
            Value::Real(process.cpu_seconds),
        ),
        (
            ("process_resident_memory_bytes", Kind::Gauge, "Memory in RAM."),
            Value::Whole(process.resident_bytes),
        ),
        (("process_open_fds", Kind::Gauge, "Open files."), Value::Whole(process.open_files)),
        (
            ("process_max_fds", Kind::Gauge, "Files that may be open."),
            Value::Whole(process.open_files_max),
        ),
        (
            ("process_start_time_seconds", Kind::Gauge, "Start, seconds since 1970."),
            Value::Real(process.start_seconds),
        ),
    ];
    for (of, value) in metrics {
        families.put(of, &[], value);
    }
}
