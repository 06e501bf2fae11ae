//! Windows of both kinds, links, holes, and files that become shorter.

use std::io::Write;

use super::*;
use crate::testing::Temporary;

const MAPPED: Access = Access { map: true, direct: false, ours: false, progress: false };

#[test]
fn windows_of_both_kinds_hold_the_same_bytes() {
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    let file = Temporary::with("windows", &bytes);
    for (map, pattern) in [
        (true, Pattern::Sequential),
        (true, Pattern::Sparse),
        (false, Pattern::Sequential),
        (false, Pattern::Sparse),
    ] {
        let access = Access { map, ..Access::default() };
        let mut source = Source::open(&file.0, Links::Refuse, access).expect("opened");
        source.expect(pattern);
        assert_eq!(source.len(), bytes.len() as u64);
        // Forwards by little, forwards over the step, backwards, longer than a step, the end.
        for (at, len) in [
            (0, 256),
            (100, 256),
            (1_048_500, 256),
            (1_048_501, 2_000_000),
            (3, 10),
            (2_999_990, 256),
            (3_000_000, 1),
            (u64::MAX, u64::MAX),
        ] {
            let window = source.window(at, len).expect("a window");
            let start = (at as usize).min(bytes.len());
            let least = (len as usize).min(bytes.len() - start);
            assert!(window.len() >= least, "map {map}: {at}, {len}");
            assert!(window == &bytes[start..start + window.len()], "map {map}: {at}, {len}");
        }
    }
}

#[test]
fn a_file_that_shrinks_is_an_error_when_read() {
    let file = Temporary::with("shrinks", &[1; 5000]);
    let access = Access::default();
    let mut source = Source::open(&file.0, Links::Refuse, access).expect("opened");
    File::options().write(true).open(&file.0).and_then(|f| f.set_len(100)).expect("cut");
    let error = source.window(0, 256).expect_err("shrunk");
    assert!(matches!(error, Failure::Shrank { was: 5000, ends: 100, .. }), "{error}");
}

/// Without the handler the touch beyond the cut would end this process with SIGBUS.
#[test]
fn a_file_that_shrinks_under_its_map_is_an_error() {
    let file = Temporary::with("cut", &vec![7; 1 << 20]);
    let mut source = Source::open(&file.0, Links::Refuse, MAPPED).expect("opened");
    assert!(source.intact().is_ok());
    let other = Source::open(&file.0, Links::Refuse, MAPPED).expect("opened");
    File::options().write(true).open(&file.0).and_then(|f| f.set_len(5000)).expect("cut");
    let window = source.window(4000, 1 << 20).expect("nothing was touched yet");
    assert_eq!((window[0], window[900_000]), (7, 0), "zeros stand where the file was");
    for error in [source.window(0, 1).map(|_| ()), source.intact(), other.intact()] {
        let error = error.expect_err("shrunk");
        assert!(matches!(error, Failure::Shrank { was: 1_048_576, ends: 5000, .. }), "{error}");
    }
}

#[test]
fn a_file_that_is_cut_is_looked_at_again_but_not_for_ever() {
    let file = Temporary::with("again", &vec![7; 1 << 20]);
    let cut = |len| File::options().write(true).open(&file.0).and_then(|f| f.set_len(len));
    let read = |source: &mut Source| {
        let len = source.window(0, u64::MAX)?.len();
        source.intact()?;
        Ok(len as u64)
    };
    for access in [Access::default(), MAPPED] {
        File::create(&file.0).and_then(|mut f| f.write_all(&[7; 9000])).expect("written");
        let mut source = Source::open(&file.0, Links::Refuse, access).expect("opened");
        let mut looks = 0;
        let done = source.again_if_cut(|source| {
            looks += 1;
            if looks == 1 {
                cut(5000).expect("cut");
            }
            read(source)
        });
        assert_eq!((done.ok(), looks, source.len()), (Some(5000), 2, 5000));
        let mut len = 5000;
        let done = source.again_if_cut(|source| {
            len -= 100;
            cut(len).expect("cut");
            read(source)
        });
        assert!(matches!(done, Err(Failure::Shrank { ends: 4700, .. })), "{done:?}");
        let mut looks = 0;
        let done: Result<(), _> = source.again_if_cut(|source| {
            looks += 1;
            source.refresh()?;
            Err(Failure::not_ours(&file.0, "never again"))
        });
        assert!(done.is_err() && looks == 1, "only for what was cut");
    }
    // What was read as zeros under a mapping is not made good by a second look.
    File::create(&file.0).and_then(|mut f| f.write_all(&vec![7; 1 << 20])).expect("written");
    let mut source = Source::open(&file.0, Links::Refuse, MAPPED).expect("opened");
    let done = source.again_if_cut(|source| {
        cut(5000).expect("cut");
        let _ = source.window(4000, 1 << 20).map(|window| window[900_000]);
        source.intact()
    });
    assert!(matches!(done, Err(Failure::Shrank { was: 1_048_576, .. })), "{done:?}");
}

#[test]
fn links_are_followed_only_where_asked() {
    let file = Temporary::with("target", b"x");
    let link = Temporary::with("link", b"");
    std::fs::remove_file(&link.0).expect("removed");
    std::os::unix::fs::symlink(&file.0, &link.0).expect("linked");
    let access = MAPPED;
    assert!(Source::open(&link.0, Links::Follow, access).is_ok());
    assert!(Source::open(&link.0, Links::Refuse, access).is_err());
}

#[test]
fn what_is_not_a_regular_file_is_refused() {
    for path in ["/dev/null", "/"] {
        let open = Source::open(Path::new(path), Links::Follow, MAPPED);
        assert!(matches!(open, Err(Failure::NotOurs { .. })), "{path}");
    }
}

#[test]
fn a_hole_up_to_the_end_is_known_without_reading() {
    let file = Temporary::with("hole", &[1; 4096]);
    let len = 1 << 40;
    File::options().write(true).open(&file.0).and_then(|f| f.set_len(len)).expect("sparse");
    let source = Source::open(&file.0, Links::Refuse, MAPPED).expect("opened");
    assert_eq!(source.next_data(0), 0);
    // A file system without SEEK_DATA says that there may be data: allowed, only slower.
    let next = source.next_data(1 << 20);
    assert!(next == len || next == 1 << 20, "{next}");
}

#[test]
fn the_first_byte_that_is_not_zero() {
    for len in [0, 1, 63, 64, 65, 1000] {
        let mut bytes = vec![0; len];
        assert_eq!(first_nonzero(&bytes), None);
        for at in 0..len {
            bytes[at] = 1;
            assert_eq!(first_nonzero(&bytes), Some(at), "{len}");
            bytes[at] = 0;
        }
    }
}
