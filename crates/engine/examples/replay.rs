//! Takes a segment file, whoever wrote it, appends its batches to a fresh engine, polls everything
//! back and compares every frame byte for byte.
//!
//! ```text
//! cargo run --release -p corelog --example replay -- FILE.log
//! ```
//!
//! The engine lives in a temporary directory below the working directory, so that it uses that
//! one's file system. Exit code: 0 all frames are the same, 1 a difference, 2 usage or I/O.

use std::collections::VecDeque;
use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelog::calls::Call;
use corelog::error::AppendError;
use corelog::{Ack, Appended, Client, Engine, PartitionId, Poll, TopicConfig};
use corelog_format::checksum::xxh3;
use corelog_format::{
    BATCH_HEADER_LEN, Batch, BatchHeader, Expect, FRAME_HEADER_LEN, Step, UnverifiedBatch, scan,
};

/// The partition that the segment is replayed into.
const PARTITION: PartitionId = PartitionId::new(0, 0, 0);
/// Bytes that one poll asks for.
const POLL_BYTES: usize = 4 << 20;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: replay FILE.log");
        return ExitCode::from(2);
    };
    match std::fs::read(&path).map_err(Box::from).and_then(|segment| replay(&segment)) {
        Ok(differences) if differences.is_empty() => ExitCode::SUCCESS,
        Ok(differences) => {
            differences.iter().for_each(|difference| eprintln!("{difference}"));
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            ExitCode::from(2)
        }
    }
}

/// The whole way; answers what differs.
fn replay(segment: &[u8]) -> Result<Vec<String>, Box<dyn Error>> {
    let source = Source::read(segment)?;
    let dir = tempfile::Builder::new().prefix(".replay-").tempdir_in(".")?;
    let engine = Engine::builder(dir.path()).shards(1).open()?;
    let client = engine.client();
    client.catalog().create_stream("replay").wait()?;
    client.catalog().create_topic(0, "segment", TopicConfig::default()).wait()?;

    let start = Instant::now();
    append(&client, &source.batches)?;
    client.flush_blocking(PARTITION, Ack::Durable)?;
    let appended = start.elapsed();
    let start = Instant::now();
    let stored = poll(&client)?;
    let polled = start.elapsed();
    engine.close_blocking()?;

    let bytes = source.batches.iter().map(Bytes::len).sum();
    println!("{} batches, {} messages, {bytes} bytes", source.batches.len(), source.messages);
    if source.renumbered > 0 {
        println!(
            "{} batches had other offset deltas than 0, 1, 2, ..: renumbered",
            source.renumbered
        );
    }
    println!("append (until durable): {}", speed(bytes, appended));
    println!("poll: {}", speed(bytes, polled));
    let differences = compare(&source, &stored)?;
    if differences.is_empty() {
        println!("every frame came back byte for byte");
    }
    Ok(differences)
}

/// The batches of a segment, as a producer would send them.
struct Source {
    batches: Vec<Bytes>,
    messages: u64,
    renumbered: usize,
}

impl Source {
    fn read(segment: &[u8]) -> Result<Source, Box<dyn Error>> {
        let mut source = Source { batches: Vec::new(), messages: 0, renumbered: 0 };
        let expect = Expect { time_may_go_back: true, ..Expect::default() };
        for step in scan(segment, segment.len() as u64, expect) {
            match step {
                Step::Batch { batch, findings, .. } => {
                    source.messages += u64::from(batch.header().message_count);
                    source.renumbered += usize::from(findings.deltas_not_index);
                    source.batches.push(as_sent(&batch));
                }
                Step::Torn { at, why } | Step::Corrupt { at, why } => {
                    return Err(format!("damaged at byte {at}: {why}").into());
                }
                Step::End { .. } => break,
                Step::NeedBytes { .. } => unreachable!("the whole file is there"),
            }
        }
        if source.batches.is_empty() {
            return Err("there is no batch in it".into());
        }
        Ok(source)
    }
}

/// A stored batch as its producer sent it: what the server stamped is zero again, offset deltas are
/// 0, 1, 2, .., and the checksums fit.
fn as_sent(stored: &Batch<'_>) -> Bytes {
    let mut frames = Vec::with_capacity(stored.bytes().len() - BATCH_HEADER_LEN);
    let mut sums = Vec::new();
    for (index, frame) in (0_u32..).zip(stored.frames()) {
        let start = frames.len();
        frames.extend_from_slice(frame.bytes());
        if frame.offset_delta() != index {
            renumber(&mut frames[start..], index);
        }
        sums.extend_from_slice(&frames[start..start + 8]);
    }
    let mut header =
        BatchHeader { partition_id: 0, base_offset: 0, base_timestamp: 0, ..*stored.header() };
    // The checksum covers the fields in this order, then each frame's (docs/format.md).
    let mut covered = Vec::with_capacity(44 + sums.len());
    for field in [0, 0, 0, header.origin_timestamp, header.batch_length] {
        covered.extend_from_slice(&field.to_le_bytes());
    }
    covered.extend_from_slice(&header.message_count.to_le_bytes());
    covered.extend_from_slice(&sums);
    header.batch_checksum = xxh3(&covered);
    [&header.encode()[..], &frames].concat().into()
}

/// Gives a frame another offset delta (byte 24) and the checksum that fits (byte 0).
fn renumber(frame: &mut [u8], delta: u32) {
    frame[24..28].copy_from_slice(&delta.to_le_bytes());
    let sum = xxh3(&frame[8..]);
    frame[..8].copy_from_slice(&sum.to_le_bytes());
}

/// Appends in order, with as much on its way as the engine takes.
fn append(client: &Client, batches: &[Bytes]) -> Result<(), AppendError> {
    let mut producer = client.producer(PARTITION);
    let mut flying: VecDeque<Call<Appended, AppendError>> = VecDeque::new();
    for batch in batches {
        let mut call = producer.append(batch.clone(), Ack::Appended);
        while matches!(call.refusal(), Some(AppendError::Busy)) {
            if let Some(oldest) = flying.pop_front() {
                oldest.wait()?;
            }
            call = producer.retry().expect("the refused batch is kept");
        }
        flying.push_back(call);
    }
    flying.into_iter().try_for_each(|call| call.wait().map(drop))
}

/// Everything that is stored, as whole batches.
fn poll(client: &Client) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let (mut stored, mut next) = (Vec::new(), 0);
    loop {
        let records = client.poll_blocking(PARTITION, Poll::offset(next).max_bytes(POLL_BYTES))?;
        if records.is_empty() {
            return Ok(stored);
        }
        for batch in records.batches() {
            stored.push(batch?.bytes().to_vec());
        }
        next = records.next_offset();
    }
}

/// What differs, at most the first ten.
fn compare(source: &Source, stored: &[Vec<u8>]) -> Result<Vec<String>, Box<dyn Error>> {
    let mut differences = Vec::new();
    if stored.len() != source.batches.len() {
        differences.push(format!(
            "{} batches went in, {} came out",
            source.batches.len(),
            stored.len()
        ));
    }
    let mut offset = 0;
    for (number, (sent, got)) in source.batches.iter().zip(stored).enumerate() {
        let sent = UnverifiedBatch::new(sent)?.verify()?;
        let got = UnverifiedBatch::new(got)?.verify()?;
        if got.header().base_offset != offset {
            let found = got.header().base_offset;
            differences.push(format!("batch {number} has offset {found}, not {offset}"));
        }
        if sent.header().origin_timestamp != got.header().origin_timestamp {
            differences.push(format!("batch {number} has another origin timestamp"));
        }
        offset += u64::from(sent.header().message_count);
        let frames = sent.frames().zip(got.frames());
        let first = { frames }.position(|(sent, got)| sent.bytes() != got.bytes());
        if let Some(frame) = first {
            differences.push(format!("batch {number}, frame {frame} came back changed"));
        }
        if sent.frames().len() != got.frames().len() {
            differences.push(format!("batch {number} has another number of frames"));
        }
        if differences.len() >= 10 {
            break;
        }
    }
    Ok(differences)
}

fn speed(bytes: usize, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    format!("{:.0} MB/s ({:.1} ms)", bytes as f64 / 1e6 / seconds, seconds * 1e3)
}

// Frames are found by these lengths above.
const _: () = assert!(BATCH_HEADER_LEN == 256 && FRAME_HEADER_LEN == 48);
