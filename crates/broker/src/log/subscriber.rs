//! The subscriber of the program: every event of the process becomes a line, if its level is wanted.

use std::time::SystemTime;

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use super::line::line;
use super::writer::Writer;
use super::{LogFormat, LogLevel};

pub(super) struct Lines {
    level: LevelFilter,
    format: LogFormat,
    writer: Writer,
}

impl Lines {
    pub(super) fn new(level: LogLevel, format: LogFormat, writer: Writer) -> Lines {
        let level = match level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        };
        Lines { level, format, writer }
    }

    /// Events, and questions whether one would be wanted, which are neither events nor spans. Neither
    /// broker nor engine has spans.
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() && *metadata.level() <= self.level
    }
}

impl Subscriber for Lines {
    /// Asked once for each place that tells something.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        self.writer.line(line(event, self.format, SystemTime::now()));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing::{debug, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat) -> String {
        let kept = Kept::default();
        let writer = Writer::start(kept.clone()).unwrap();
        let lines = Lines::new(LogLevel::Info, format, writer.clone());
        tracing::subscriber::with_default(lines, || {
            debug!(name: "quiet", target: "t", "not wanted");
            assert!(tracing::enabled!(target: "t", tracing::Level::INFO), "who asks first is told");
            assert!(!tracing::enabled!(target: "t", tracing::Level::DEBUG));
            let sdk = "evil\"\n\u{1b}[2J\\";
            let (peer, suppressed) = ("127.0.0.1:1", 0_u64);
            warn!(name: "loud", target: "t", { sdk, peer, no = 7_u64, suppressed }, "it is so");
            warn!(name: "long", target: "t", { name = "x".repeat(9999) }, "cut");
        });
        writer.flush();
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_is_a_line_an_event_whatever_clients_send() {
        let text = logged(LogFormat::Text);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        let (time, rest) = lines[0].split_once(' ').unwrap();
        assert!(time.ends_with('Z') && time.len() == 27, "{time}");
        let expected = r#" WARN t loud: it is so sdk=evil\"\n\u{1b}[2J\\ peer=127.0.0.1:1 no=7"#;
        assert_eq!(rest, expected);
        assert!(lines[1].len() < 1200);
    }

    #[test]
    fn json_is_an_object_an_event() {
        let text = logged(LogFormat::Json);
        let first: serde_json::Value =
            serde_json::from_str(text.lines().next().unwrap()).expect("it is JSON");
        let field = |name: &str| first[name].as_str().unwrap().to_owned();
        assert_eq!(field("sdk"), "evil\"\n\u{1b}[2J\\");
        let fixed = ["level", "target", "event", "message"].map(field);
        assert_eq!(fixed, ["WARN", "t", "loud", "it is so"]);
        assert_eq!((first["no"].as_u64(), first["suppressed"].as_u64()), (Some(7), Some(0)));
    }
}
