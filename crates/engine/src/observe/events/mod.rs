//! Events for `tracing`: what an operator must know, by names, targets and fields that stay.
//!
//! Told where it happens: on a shard's thread, mostly, which serves nobody until the embedder's
//! subscriber has returned. Nothing is formatted or allocated where no subscriber wants the event.
//! A subscriber that panics ends its event and nothing else. Of one kind at most [`TOLD_MAX`] events
//! go out in [`WINDOW`], so that a bad disk under ten thousand partitions floods nobody; the next one
//! says how many were kept back, as its field `suppressed`.

mod disk;
mod engine;
mod partition;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Events of one kind in a window.
const TOLD_MAX: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// Tells one event, if somebody wants it and not too many of its kind were told.
macro_rules! tell {
    ($events:expr, $name:literal, $target:literal, $level:ident,
     { $($fields:tt)* }, $text:literal) => {
        let events: &Events = $events;
        if ::tracing::enabled!(target: $target, ::tracing::Level::$level)
            && let Some(suppressed) = events.allow($name)
        {
            events.contained(|| {
                ::tracing::event!(
                    name: $name,
                    target: $target,
                    ::tracing::Level::$level,
                    { engine = events.engine(), $($fields)* suppressed },
                    $text
                );
            });
        }
    };
}
pub(crate) use tell;

/// The way to `tracing` for one engine. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: String,
    slow_io: Duration,
    /// A few, by name.
    told: Mutex<Vec<(&'static str, Told)>>,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    since: Instant,
    count: u32,
    suppressed: u64,
}

impl Events {
    /// Of the engine on the directory `data`; file operations are slow from `slow_io` on.
    pub(crate) fn new(data: &Path, slow_io: Duration) -> Events {
        let engine = data.display().to_string();
        Events { inner: Arc::new(Inner { engine, slow_io, told: Mutex::default() }) }
    }

    /// Where nobody listens.
    #[cfg(test)]
    pub(crate) fn of_test() -> Events {
        Events::new(Path::new("test"), Duration::from_secs(3600))
    }

    pub(crate) fn slow_io(&self) -> Duration {
        self.inner.slow_io
    }

    fn engine(&self) -> &str {
        &self.inner.engine
    }

    /// How many of that name were kept back since the last one, where another may be told now.
    fn allow(&self, name: &'static str) -> Option<u64> {
        self.allow_at(name, Instant::now())
    }

    fn allow_at(&self, name: &'static str, now: Instant) -> Option<u64> {
        let mut all = self.inner.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, told)) = all.iter_mut().find(|(known, _)| *known == name) else {
            all.push((name, Told { since: now, count: 1, suppressed: 0 }));
            return Some(0);
        };
        if now.saturating_duration_since(told.since) >= WINDOW {
            (told.since, told.count) = (now, 0);
        }
        if told.count >= TOLD_MAX {
            told.suppressed += 1;
            return None;
        }
        told.count += 1;
        Some(std::mem::take(&mut told.suppressed))
    }

    /// The embedder's subscriber may panic; nothing of ours is held meanwhile.
    fn contained(&self, tell: impl FnOnce()) {
        let _ = catch_unwind(AssertUnwindSafe(tell));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_off_and_counted_by_kind() {
        let events = Events::new(Path::new("data"), Duration::ZERO);
        let begin = Instant::now();
        let told: Vec<_> = (0..100).filter_map(|_| events.allow_at("a", begin)).collect();
        assert_eq!(told, [0; TOLD_MAX as usize]);
        assert_eq!(events.allow_at("b", begin), Some(0), "another kind has its own room");
        assert_eq!(events.allow_at("a", begin + WINDOW / 2), None);
        assert_eq!(events.allow_at("a", begin + WINDOW), Some(81));
        assert_eq!(events.allow_at("a", begin + WINDOW), Some(0));
    }

    /// Name, target, level and own fields of every event in `source`.
    fn told(source: &str) -> Vec<[String; 4]> {
        let source = source.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(");
        let calls = source.split("tell").filter_map(|call| {
            let call = call.strip_prefix("!(self").or_else(|| call.strip_prefix("_of!(self"))?;
            let call = &call[..call.find(");")?];
            let mut quoted = call.split('"').skip(1).step_by(2);
            let (name, target) = (quoted.next()?, quoted.next()?);
            let level =
                ["ERROR", "WARN", "INFO", "DEBUG"].into_iter().find(|l| call.contains(l))?;
            let fields = call.split_once('{')?.1.rsplit_once('}')?.0;
            let field = |field: &str| field.split('=').next().map(|name| name.trim().to_owned());
            let fields = fields.split(',').filter_map(field).filter(|name| !name.is_empty());
            let fields = fields.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            Some([format!("`{name}`"), format!("`{target}`"), level.to_owned(), fields])
        });
        calls.collect()
    }

    #[test]
    fn the_document_lists_every_event_and_no_other() {
        let sources =
            [include_str!("partition.rs"), include_str!("disk.rs"), include_str!("engine.rs")];
        let document = include_str!("../../../../../docs/operations.md");
        let rows = document.lines().filter(|line| line.contains("| `corelog::"));
        let listed = rows.map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            [cells[1], cells[2], cells[3], cells[4]].map(str::to_owned)
        });
        let mut listed: Vec<_> = listed.collect();
        let mut ours: Vec<_> = sources.into_iter().flat_map(told).collect();
        listed.sort();
        ours.sort();
        assert_eq!(listed, ours);
        assert!(ours.len() > 20, "{ours:?}");
    }
}
