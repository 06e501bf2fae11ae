//! The table of all options. Flags, variables, the file, `--print-config` and `--help` follow it.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use corelog::machine::{DirectIo, Runtime};

use super::Settings;
use super::kinds::{Kind, Open, Size, Word};
use crate::{Config, LogFormat, LogLevel};

/// An option.
pub(super) struct Opt {
    /// As the file has it; flag and variable follow from it.
    pub(super) key: &'static str,
    /// What its value is, in a word.
    pub(super) value: &'static str,
    pub(super) help: &'static str,
    pub(super) set: fn(&mut Settings, &str) -> Result<(), String>,
    /// Its value as it stands in a file; `None` where that says it by saying nothing.
    pub(super) show: fn(&Settings) -> Option<String>,
}

impl Opt {
    /// `--log-level`, without the dashes in front.
    pub(super) fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// `CORELOG_LOG_LEVEL`
    pub(super) fn variable(&self) -> String {
        format!("CORELOG_{}", self.key.to_ascii_uppercase())
    }

    /// Its help with its default and its variable.
    pub(super) fn long_help(&self, defaults: &Settings) -> String {
        let mut help = self.help.to_owned();
        // The data directory of the defaults is nobody's.
        if let Some(default) = (self.show)(defaults).filter(|_| self.key != "data") {
            let _ = write!(help, " [default: {}]", default.trim_matches('"'));
        }
        help + " [env: " + &self.variable() + "]"
    }
}

/// The option with this key.
pub(super) fn find(key: &str) -> Option<usize> {
    OPTIONS.iter().position(|option| option.key == key)
}

/// All at their defaults.
pub(super) fn defaults() -> Settings {
    Settings {
        broker: Config::new(""),
        log_level: LogLevel::default(),
        log_format: LogFormat::default(),
        stop_timeout: Duration::from_secs(10),
        sources: vec![super::Source::Default; OPTIONS.len()],
        print: false,
    }
}

/// An option whose field is of a kind, or is what a kind wraps.
macro_rules! option {
    ($key:literal, $value:literal, in $wrap:ident, $($field:ident).+, $help:literal) => {
        Opt {
            key: $key, value: $value, help: $help,
            set: |settings, text| {
                settings.$($field).+ = $wrap::parse(text)?.0;
                Ok(())
            },
            show: |settings| $wrap(settings.$($field).+).show(),
        }
    };
    ($key:literal, $value:literal, $kind:ty, $($field:ident).+, $help:literal) => {
        Opt {
            key: $key, value: $value, help: $help,
            set: |settings, text| {
                settings.$($field).+ = <$kind as Kind>::parse(text)?;
                Ok(())
            },
            show: |settings| settings.$($field).+.show(),
        }
    };
}

#[rustfmt::skip]
pub(super) const OPTIONS: &[Opt] = &[
    option!("data", "DIR", PathBuf, broker.data,
        "Data directory; made where there is none"),
    option!("listen", "ADDRESS", SocketAddr, broker.listen,
        "Where clients connect"),
    option!("metrics", "ADDRESS", Option<SocketAddr>, broker.metrics,
        "Where /metrics and /health are served by HTTP; nowhere without it"),
    option!("shards", "N", Option<usize>, broker.shards,
        "Shards of the engine; one a CPU without it"),
    option!("cpus", "LIST", Option<Vec<usize>>, broker.cpus,
        "CPUs that shards may run on, as 0,2-5; all without it"),
    option!("direct_io", "WORD", DirectIo, broker.direct_io,
        "On a file system without O_DIRECT: required (do not start) or preferred (go on)"),
    option!("runtime", "NAME", Option<Runtime>, broker.runtime,
        "What drives the shards: ring, or glommio; without it ring where the kernel has it"),
    option!("log_level", "LEVEL", in Word, log_level,
        "off, error, warn, info, debug or trace"),
    option!("log_format", "FORMAT", in Word, log_format,
        "text or json, a line an event, on standard error"),
    option!("stop_timeout", "TIME", Duration, stop_timeout,
        "Time for connections to finish what they do after SIGTERM"),
    option!("connections", "N", usize, broker.clients.connections,
        "Connections at a time; at most half of the files that the process may open"),
    option!("connections_per_shard", "N", in Open, broker.clients.connections_per_shard,
        "Connections of one shard; no other limit without it"),
    option!("frame_bytes", "SIZE", in Size, broker.clients.frame_bytes,
        "Longest frame, up to 64 MiB"),
    option!("frame_memory", "SIZE", in Size, broker.clients.frame_memory,
        "Memory for frames above 64 KiB that are received or served; beyond, sockets wait"),
    option!("reply_memory", "SIZE", in Size, broker.clients.reply_memory,
        "Memory for replies that clients have not taken; beyond, polls wait"),
    option!("failed_logins", "N", in Word, broker.clients.failed_logins,
        "Logins from an address that may fail in a minute; beyond, none from there is looked at"),
    option!("login_timeout", "TIME", Duration, broker.clients.login_timeout,
        "Time from a connection to a login"),
    option!("idle_timeout", "TIME", Duration, broker.clients.idle_timeout,
        "Time without a frame after which a connection is ended"),
    option!("frame_timeout", "TIME", Duration, broker.clients.frame_timeout,
        "Time for a frame to be whole once it has begun"),
    option!("reply_timeout", "TIME", Duration, broker.clients.reply_timeout,
        "Time for a client to take a reply"),
    option!("engine_registered_bytes", "SIZE", in Size, broker.engine.registered_bytes,
        "A shard's buffers that the kernel has registered: locked memory"),
    option!("engine_write_bytes", "SIZE", in Size, broker.engine.write_bytes,
        "A shard's buffers on their way to the disk or kept for readers"),
    option!("engine_read_bytes", "SIZE", in Size, broker.engine.read_bytes,
        "A shard's buffers that polls read into"),
    option!("engine_cache_bytes", "SIZE", in Size, broker.engine.cache_bytes,
        "A shard's buffers kept for readers"),
    option!("engine_lease_bytes", "SIZE", in Size, broker.engine.lease_bytes,
        "A shard's buffers lent to replies; beyond, replies are copies"),
    option!("engine_append_bytes_in_flight", "SIZE", in Size, broker.engine.append_bytes_in_flight,
        "Bytes of a shard's appends that are not answered; beyond, they are refused for now"),
    option!("engine_appends_in_flight", "N", usize, broker.engine.appends_in_flight,
        "A shard's appends that are not answered"),
    option!("engine_polls_in_flight", "N", usize, broker.engine.polls_in_flight,
        "A shard's polls that are not answered"),
    option!("engine_poll_bytes", "SIZE", in Size, broker.engine.poll_bytes,
        "Most bytes that one poll gets; one batch may be longer"),
    option!("engine_mailbox_requests", "N", usize, broker.engine.mailbox_requests,
        "Requests of other shards that wait for a shard"),
    option!("engine_open_files", "N", usize, broker.engine.open_files,
        "A shard's files open for reading"),
    option!("engine_active_files", "N", usize, broker.engine.active_files,
        "A shard's files open for appending"),
    option!("engine_group_members", "N", usize, broker.engine.group_members,
        "Memberships in consumer groups, of the whole broker"),
    option!("engine_group_patience", "TIME", Duration, broker.engine.group_patience,
        "Time for which a member may keep a partition that is to go to another one"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// What an option shows can be set, and is the same then.
    #[test]
    fn what_is_shown_can_be_read() {
        let mut settings = defaults();
        settings.broker.data = "/data".into();
        settings.broker.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 1)));
        settings.broker.cpus = Some(vec![1, 3]);
        settings.broker.shards = Some(2);
        for option in OPTIONS {
            let Some(shown) = (option.show)(&settings) else { continue };
            let mut again = settings.clone();
            (option.set)(&mut again, shown.trim_matches('"')).unwrap();
            assert_eq!((option.show)(&again), Some(shown), "{}", option.key);
        }
    }

    #[test]
    fn an_option_has_a_key_a_flag_and_a_variable() {
        let names: std::collections::HashSet<_> = OPTIONS.iter().map(|option| option.key).collect();
        assert_eq!(names.len(), OPTIONS.len());
        let level = &OPTIONS[find("log_level").unwrap()];
        let names = (level.flag(), level.variable());
        assert_eq!(names, ("log-level".to_owned(), "CORELOG_LOG_LEVEL".to_owned()));
        let help = level.long_help(&defaults());
        assert!(help.ends_with("[default: info] [env: CORELOG_LOG_LEVEL]"), "{help}");
    }
}
