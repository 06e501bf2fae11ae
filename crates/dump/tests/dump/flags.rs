//! No flag hides a row: as many are printed as were appended, whatever else is asked for.

use crate::support::{Scratch, Segment, dump};

/// Every subset of `show`'s flags that says how, and not which (kafka #4396).
#[test]
fn every_combination_of_flags_prints_every_row() {
    let scratch = Scratch::new();
    let segment = Segment::new(0, 0, &[3, 1, 7, 2]);
    let path = segment.write(&scratch, "p");
    let path = path.to_str().expect("UTF-8");
    let payloads = [
        &[][..],
        &["--payload", "text"],
        &["--payload", "hex"],
        &["--payload", "base64"],
        &["--payload", "none"],
    ];
    for payload in payloads {
        for bits in 0..32_u32 {
            let flags = ["--messages", "--ndjson", "--reverse", "--no-mmap", "--direct"];
            let mut args = vec!["show"];
            args.extend((0..5).filter(|bit| bits >> bit & 1 == 1).map(|bit| flags[bit as usize]));
            let messages = bits & 1 == 1;
            if messages {
                args.extend_from_slice(payload);
            }
            args.push(path);
            let ran = dump(&args).expect(0);
            assert_eq!(ran.out.lines().count(), if messages { 13 } else { 4 }, "{args:?}: {ran:?}");
            assert!(ran.err.is_empty(), "{args:?}: {ran:?}");
        }
    }
}
