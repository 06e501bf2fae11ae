//! What the kernel writes is read right, and what it does not say stays unknown.

use std::fs::OpenOptions;
use std::io::Write;

use super::*;

/// A test's own directory on the build's disk.
fn scratch(name: &str) -> crate::place::Place {
    crate::place::tests::test_dir(name)
}

#[test]
fn kernel_texts() {
    let io = "rchar: 6976\nwchar: 5\nsyscr: 10\nsyscw: 3\nread_bytes: 4096\nwrite_bytes: 8192\n\
              cancelled_write_bytes: 1\n";
    let expected = Io { read_calls: 10, write_calls: 3, read_bytes: 4096, written_bytes: 8192 };
    assert_eq!(Io::parse(io), Some(expected));
    assert_eq!(Io::parse("rchar: 6976\n"), None);

    let stat = " 11715223 4878382 6838083982 17159023 93667513 4295931 5170460600 20184276 0 \
                4654220 38929407 2415855 8170 4014583792 661134 14413207 924972\n";
    let device = Device::parse(stat).unwrap();
    assert_eq!(device.read_bytes, 6_838_083_982 * 512);
    assert_eq!(device.written_bytes, 5_170_460_600 * 512);
    assert_eq!((device.writes, device.flushes), (93_667_513, 14_413_207));
    // A kernel before 5.5 counts no flushes.
    assert_eq!(Device::parse("1 2 3 4 5 6 7 8 9 10 11"), None);
    assert_eq!(Device::parse("one"), None);

    assert_eq!(kernel::kib("VmPeak:\t 9 kB\nVmHWM:\t 1640 kB\n", "VmHWM"), Some(1640 * 1024));
    assert_eq!(kernel::kib("VmHWM:\t kB\n", "VmHWM"), None);
    // Not `SwapCached`.
    assert_eq!(kernel::kib("SwapCached: 1 kB\nCached: 2 kB\n", "Cached"), Some(2048));
}

#[test]
fn unknown_stays_unknown_and_spoils_sums() {
    let seen = Seen { rusage: Some(Rusage::default()), ..Seen::default() };
    let known = between(&seen, &seen, Duration::from_secs(1));
    assert_eq!((known.cpu_percent(), known.switches_voluntary), (Some(0.0), Some(0)));
    assert_eq!((known.read_calls, known.device, known.instructions), (None, None, None));
    assert_eq!((known.peak_rss_bytes, known.page_cache_growth_bytes), (None, None));
    let unknown = between(&Seen::default(), &seen, Duration::from_secs(1));
    assert_eq!(unknown.cpu(), None);

    let sum = Used::merged([&known, &unknown, &known]).unwrap();
    assert_eq!((sum.wall, sum.cpu()), (Duration::from_secs(3), None));
    assert_eq!(Used::merged([]), None);
    let json = unknown.to_json(1, Some(1));
    for (key, value) in json.as_object().unwrap() {
        assert!(value.is_null() || key == "wall_s", "{key}: {value}");
    }
}

#[test]
fn what_was_used_between_is_the_difference_of_each() {
    let seen = |times: u64| Seen {
        rusage: Some(Rusage {
            user: Duration::from_secs(times),
            system: Duration::from_secs(2 * times),
            switches_voluntary: 3 * times,
            switches_involuntary: 4 * times,
            faults_minor: 5 * times,
            faults_major: 6 * times,
        }),
        io: Some(Io {
            read_calls: 7 * times,
            write_calls: 8 * times,
            read_bytes: 9 * times,
            written_bytes: 10 * times,
        }),
        device: Some(Device {
            read_bytes: 11 * times,
            written_bytes: 12 * times,
            writes: 13 * times,
            flushes: 14 * times,
        }),
        page_cache_bytes: Some(15 * times),
        instructions: Some(16 * times),
        cycles: Some(17 * times),
    };
    let used = between(&seen(1), &seen(3), Duration::from_secs(9));
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!((used.cpu_user, used.cpu_system), (seconds(2), seconds(4)));
    assert_eq!((used.switches_voluntary, used.switches_involuntary), (Some(6), Some(8)));
    assert_eq!((used.faults_minor, used.faults_major), (Some(10), Some(12)));
    assert_eq!((used.read_calls, used.write_calls), (Some(14), Some(16)));
    assert_eq!((used.process_read_bytes, used.process_written_bytes), (Some(18), Some(20)));
    let device = Device { read_bytes: 22, written_bytes: 24, writes: 26, flushes: 28 };
    assert_eq!(used.device, Some(device));
    assert_eq!(used.page_cache_growth_bytes, Some(30));
    assert_eq!((used.instructions, used.cycles), (Some(32), Some(34)));
}

#[test]
fn sums_peaks_and_ratios() {
    let one = Used {
        wall: Duration::from_secs(2),
        cpu_user: Some(Duration::from_secs(1)),
        cpu_system: Some(Duration::from_secs(2)),
        switches_voluntary: Some(5),
        peak_rss_bytes: Some(100),
        page_cache_growth_bytes: Some(-10),
        device: Some(Device { read_bytes: 1, written_bytes: 3_000, writes: 2, flushes: 1 }),
        ..Used::default()
    };
    let other = Used {
        peak_rss_bytes: Some(300),
        page_cache_growth_bytes: Some(4),
        switches_voluntary: Some(7),
        ..one.clone()
    };
    let sum = Used::merged([&one, &other]).unwrap();
    assert_eq!((sum.wall, sum.cpu()), (Duration::from_secs(4), Some(Duration::from_secs(6))));
    assert_eq!((sum.peak_rss_bytes, sum.page_cache_growth_bytes), (Some(300), Some(-6)));
    assert_eq!(sum.switches_voluntary, Some(12));
    assert_eq!(sum.device.unwrap().written_bytes, 6_000);
    assert_eq!(sum.cpu_percent(), Some(150.0));
    assert_eq!(sum.cpu_s_per_gb(2_000_000_000), Some(3.0));
    assert_eq!((sum.cpu_s_per_gb(0), sum.write_amplification(0)), (None, None));
    assert_eq!(sum.write_amplification(4_000), Some(1.5));
}

#[test]
fn work_is_charged_to_its_phase() {
    let place = scratch("usage");
    let meter = Meter::start(place.path());
    // More than anything else here: a peak, calls and CPU of this phase alone.
    let mut memory = vec![1_u8; 64 << 20];
    for (n, byte) in memory.iter_mut().enumerate().step_by(4096) {
        *byte = n as u8;
    }
    let path = place.path().join("round-usage");
    let mut file = OpenOptions::new().create_new(true).write(true).open(&path).unwrap();
    for block in memory.chunks(1 << 20).take(8) {
        file.write_all(block).unwrap();
    }
    file.sync_all().unwrap();
    let busy = Instant::now();
    while busy.elapsed() < Duration::from_millis(30) {}
    let usage = meter.stop();
    drop(memory);
    std::fs::remove_file(&path).unwrap();

    assert!(usage.cpu().unwrap() >= Duration::from_millis(20), "{usage:?}");
    assert!(usage.write_calls.unwrap() >= 8, "{usage:?}");
    assert!(usage.process_written_bytes.unwrap() >= 8 << 20, "{usage:?}");
    if let Some(peak) = usage.peak_rss_bytes {
        assert!(peak >= 64 << 20, "{usage:?}");
    }
    if let Some(device) = usage.device {
        assert!(device.written_bytes >= 8 << 20, "{usage:?}");
    }
}
