//! A subscriber that keeps what the engines of this process tell, each event held against its row of
//! the document.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What nothing here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// An event as it was told. Fields that have no value are not in it.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) name: &'static str,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

static ALL: Mutex<Vec<Told>> = Mutex::new(Vec::new());
/// What does not agree with the document.
static WRONG: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<Told>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the subscriber, once a process.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        tracing::subscriber::set_global_default(Keeps).expect("nobody else installs one");
    });
}

impl Told {
    pub(crate) fn is(&self, field: &str, value: &str) -> bool {
        self.fields.get(field).is_some_and(|found| found == value)
    }

    /// The field holds `part`.
    pub(crate) fn has(&self, field: &str, part: &str) -> bool {
        self.fields.get(field).is_some_and(|found| found.contains(part))
    }

    /// How long something took: a test's while.
    pub(crate) fn is_a_while(&self) -> bool {
        self.number("took_ms") < PATIENCE.as_millis() as u64 * 4
    }

    pub(crate) fn number(&self, field: &str) -> u64 {
        let value = self.fields.get(field).unwrap_or_else(|| panic!("no {field} in {self:?}"));
        value.parse().unwrap_or_else(|_| panic!("{field} is no number in {self:?}"))
    }
}

/// The events called `name` of the engine on `dir`.
pub(crate) fn told(dir: &Path, name: &str) -> Vec<Told> {
    let wrong = WRONG.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(wrong.is_empty(), "docs/operations.md says otherwise: {wrong:?}");
    let engine = dir.display().to_string();
    all().iter().filter(|told| told.name == name && told.is("engine", &engine)).cloned().collect()
}

/// The first event called `name` of the engine on `dir`, waited for.
pub(crate) fn await_told(dir: &Path, name: &str) -> Told {
    let patience = Instant::now() + PATIENCE;
    loop {
        if let Some(first) = told(dir, name).into_iter().next() {
            return first;
        }
        assert!(Instant::now() < patience, "no {name} among {:#?}", all());
        thread::sleep(Duration::from_millis(2));
    }
}

struct Keeps;

impl Subscriber for Keeps {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("corelog")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        if let Err(wrong) = is_listed(metadata) {
            WRONG.lock().unwrap_or_else(PoisonError::into_inner).push(wrong);
        }
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        all().push(Told { name: metadata.name(), fields: fields.0 });
    }
}

struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// The event has a row with its target and level, and the fields of that, and those that all have.
fn is_listed(metadata: &Metadata<'_>) -> Result<(), String> {
    let name =
        format!("| `{}` | `{}` | {} |", metadata.name(), metadata.target(), metadata.level());
    let document = include_str!("../../../../docs/operations.md");
    let row = document.lines().find_map(|line| line.strip_prefix(&name));
    let row = row.ok_or_else(|| format!("no row {name}"))?;
    let cell = row.split('|').next().unwrap_or_default();
    let mut listed: Vec<_> = cell.split(',').map(|field| field.trim().trim_matches('`')).collect();
    listed.retain(|field| !field.is_empty());
    let common = ["engine", "suppressed", "message", "shard", "stream", "topic", "partition"];
    let found: Vec<_> = metadata.fields().iter().map(|field| field.name()).collect();
    let of_partition = found.contains(&"topic");
    let own = |field: &&&str| !(common.contains(field) && (of_partition || **field != "shard"));
    let own: Vec<_> = found.iter().filter(own).copied().collect();
    match own == listed && found.contains(&"engine") && found.contains(&"suppressed") {
        true => Ok(()),
        false => Err(format!("{name} has {found:?}")),
    }
}
