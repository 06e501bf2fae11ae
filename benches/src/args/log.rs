//! The flags that say how the topic's logs are kept.

use clap::Args;

use super::units::Time;
use crate::size::Size;
use crate::subject::LogOptions;

/// How the topic's logs are kept; what is not given is the engine's default.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of the topic")]
pub(crate) struct LogArgs {
    /// Every append is durable before it is answered, whatever --ack says
    #[arg(long)]
    enforce_fsync: bool,

    /// A segment of this size is sealed: a multiple of 512 from 1MiB to 1GiB
    #[arg(long, value_name = "SIZE", value_parser = segment_size)]
    segment_size: Option<Size>,

    /// Buffered messages that are sent to the device at the latest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    messages_required_to_save: Option<u32>,

    /// Buffered bytes that are sent to the device at the latest
    #[arg(long, value_name = "SIZE", value_parser = save_size)]
    size_of_messages_required_to_save: Option<Size>,

    /// After this time buffered bytes are sent to the device at the latest
    #[arg(long, value_name = "TIME", value_parser = flush_after)]
    flush_after: Option<Time>,

    /// Reserve a whole segment's space when it is created
    #[arg(long)]
    preallocate: bool,

    /// Delete the oldest sealed segments while the topic has more bytes than this
    #[arg(long, value_name = "SIZE")]
    retention_size: Option<Size>,

    /// Delete sealed segments that are older than this
    #[arg(long, value_name = "TIME")]
    retention_time: Option<Time>,

    /// Serve polls without comparing checksums
    #[arg(long)]
    no_verify_reads: bool,
}

impl LogArgs {
    /// What is asked for.
    pub(super) fn options(&self) -> LogOptions {
        LogOptions {
            enforce_fsync: self.enforce_fsync,
            preallocate_segments: self.preallocate,
            segment_bytes: self.segment_size.map(|size| size.0),
            messages_required_to_save: self.messages_required_to_save,
            size_of_messages_required_to_save: self
                .size_of_messages_required_to_save
                .map(|size| size.0),
            flush_after: self.flush_after.map(|time| time.0),
            max_topic_size: self.retention_size.map(|size| size.0),
            message_expiry: self.retention_time.map(|time| time.0),
            trust_reads: self.no_verify_reads,
        }
    }
}

fn segment_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    let is_fit = (1 << 20..=1 << 30).contains(&size.0) && size.0.is_multiple_of(512);
    if is_fit { Ok(size) } else { Err("a multiple of 512 from 1MiB to 1GiB".to_owned()) }
}

fn save_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    if (1..=1 << 30).contains(&size.0) { Ok(size) } else { Err("from 1 byte to 1GiB".to_owned()) }
}

fn flush_after(text: &str) -> Result<Time, String> {
    let time: Time = text.parse()?;
    if (1..=60_000_000).contains(&time.0.as_micros()) {
        return Ok(time);
    }
    Err("from 1us to 60s".to_owned())
}
