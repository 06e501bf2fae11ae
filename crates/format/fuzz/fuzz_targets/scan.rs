//! The segment scan over files that are partly good: windows of any size tell the same story as
//! the whole file, every call moves on, and the last word is true.
#![no_main]

use corelog_format::{BatchBuilder, Expect, Message, Scan, Step, admit, scan};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // Input that runs out ends the file, nothing else.
    let _ = run(&mut Unstructured::new(input));
});

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let expect = Expect {
        partition_id: input.arbitrary::<bool>()?.then_some(1),
        next_offset: input.arbitrary::<bool>()?.then_some(0),
        after_timestamp: input.arbitrary::<bool>()?.then_some(0),
        time_may_go_back: input.arbitrary()?,
    };
    let durable = input.arbitrary::<u16>()?;
    let durable_to = if durable == u16::MAX { u64::MAX } else { u64::from(durable) };
    let mut sizes = input.arbitrary::<u64>()? | 1;
    let bytes = file(input)?;

    let whole: Vec<String> = scan(&bytes, durable_to, expect).map(|step| told(&step)).collect();
    check(&bytes, durable_to, expect);
    let mut windowed = Vec::new();
    let mut scan = Scan::new(0, bytes.len() as u64, durable_to, expect);
    let mut need = 0;
    loop {
        let start = scan.position();
        let rest = &bytes[start as usize..];
        sizes = sizes.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let window = &rest[..rest.len().min(need + (sizes >> 33) as usize % 700)];
        let step = scan.next(window);
        if let Step::NeedBytes { len } = step {
            let left = bytes.len() as u64 - scan.position();
            assert!(len <= left, "{len} bytes of {left}");
            assert!(scan.position() > start || len > window.len() as u64, "no progress");
            need = len as usize;
            continue;
        }
        need = 0;
        windowed.push(told(&step));
        if !matches!(step, Step::Batch { .. }) {
            let again = &bytes[scan.position() as usize..];
            assert_eq!(Some(&told(&scan.next(again))), windowed.last(), "the last word repeats");
            break;
        }
    }
    assert_eq!(windowed, whole);
    Ok(())
}

/// A step as text, without the memory that its batch is borrowed from.
fn told(step: &Step<'_>) -> String {
    match step {
        Step::Batch { at, batch, findings } => format!("{at} {:?} {findings:?}", batch.header()),
        other => format!("{other:?}"),
    }
}

/// What has to hold for the story of any file.
fn check(bytes: &[u8], durable_to: u64, expect: Expect) {
    let (mut next, mut last_time) = (0, None);
    let durable_to = if durable_to == u64::MAX { bytes.len() as u64 } else { durable_to };
    for step in scan(bytes, durable_to, expect) {
        match step {
            Step::Batch { at, batch, findings } => {
                assert_eq!(at, next, "batches stand back to back");
                assert_eq!(batch.bytes(), &bytes[at as usize..][..batch.bytes().len()]);
                next += batch.header().batch_length;
                let time = batch.header().base_timestamp;
                if last_time.is_some_and(|last| time <= last) {
                    assert!(expect.time_may_go_back && findings.time_went_back);
                }
                last_time = Some(time);
            }
            Step::End { at } => {
                assert_eq!(at, next);
                assert!(at >= durable_to, "the end stands below what was durable");
                assert!(bytes[at as usize..].iter().all(|byte| *byte == 0));
            }
            Step::Torn { at, .. } => assert!(at == next && at >= durable_to),
            Step::Corrupt { at, .. } => assert!(at == next && at < durable_to),
            Step::NeedBytes { .. } => panic!("the whole file was given"),
        }
    }
}

/// Batches that continue one another, and what a crash or a bug leaves between them.
fn file(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut offset, mut time) = (0, 1);
    while !input.is_empty() && bytes.len() < 32 * 1024 {
        match input.int_in_range(0..=9)? {
            0..=4 => {
                let batch = batch(input, 1, offset, time)?;
                offset += u64::from(batch[48]);
                time += 10;
                bytes.extend(batch);
            }
            5 => bytes.extend(vec![0; input.int_in_range(0..=1500)?]),
            6 => bytes.extend_from_slice(input.bytes(input.len().min(40))?),
            7 => {
                let (partition, skew) = (input.int_in_range(0..=2)?, input.int_in_range(0..=2)?);
                bytes.extend(batch(input, partition, offset + skew, time - skew.min(time))?);
            }
            8 => bytes.truncate(bytes.len().saturating_sub(input.int_in_range(0..=400)?)),
            _ if bytes.is_empty() => {}
            _ => {
                let place = input.choose_index(bytes.len())?;
                bytes[place] ^= 1 << input.int_in_range(0..=7)?;
            }
        }
    }
    Ok(bytes)
}

/// A batch of one to three messages, stamped.
fn batch(input: &mut Unstructured<'_>, partition: u64, offset: u64, time: u64) -> Result<Vec<u8>> {
    let mut builder = BatchBuilder::new();
    for id in 0..input.int_in_range(1..=3)? {
        let length = input.int_in_range(0..=20)?;
        let payload = input.bytes(input.len().min(length))?;
        builder.push(Message::new(payload).id(id)).expect("a small message");
    }
    let mut bytes = builder.finish().expect("at least one message");
    let header = admit(&bytes).expect("what was built is admitted").stamp(partition, offset, time);
    bytes[..256].copy_from_slice(&header);
    Ok(bytes)
}
