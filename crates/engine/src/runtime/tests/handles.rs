//! Descriptors: flags that must survive, limits, and what is open when nothing is.

use std::fs;

use corelog_io::{File, IoOp, Open};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

/// The open flags of this process's descriptors on `path`, as the kernel has them.
fn flags_of(path: &Path) -> Vec<libc::c_int> {
    let numbers = fs::read_dir("/proc/self/fd").expect("proc is mounted").flatten();
    numbers
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == path))
        .map(|entry| {
            let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
            let info = fs::read_to_string(info).expect("an open descriptor has its info");
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.expect("the kernel tells the flags").trim();
            libc::c_int::from_str_radix(flags, 8).expect("an octal number")
        })
        .collect()
}

/// glommio gets the descriptor that we opened: O_DIRECT, O_DSYNC and close-on-exec are on it, O_NONBLOCK
/// (which io_uring would take for "answer EAGAIN") is not, and there is one of it, not two.
#[test]
fn flags_reach_the_descriptor_that_does_the_io() {
    on_shard("flags", |platform, dir| async move {
        let disk = platform.disk();
        let path = dir.join("file");
        let how = Open { create_new: true, dsync: true, lock: true, ..Open::default() };
        let file = disk.open(&path, how).await.expect("create");
        file.write_at(pattern(disk, BLOCK, 1), 0).await.expect("write");
        let [flags] = flags_of(&path)[..] else { panic!("{:?}", flags_of(&path)) };
        for (flag, name, want) in [
            (libc::O_DIRECT, "O_DIRECT", true),
            (libc::O_DSYNC, "O_DSYNC", true),
            (libc::O_CLOEXEC, "O_CLOEXEC", true),
            (libc::O_RDWR, "O_RDWR", true),
            (libc::O_NONBLOCK, "O_NONBLOCK", false),
        ] {
            assert_eq!(flags & flag != 0, want, "{name} in {flags:o}");
        }
        file.close().await.expect("close");
        assert_eq!(flags_of(&path), [], "closed means closed");
        let plain = disk.open(&path, Open::default()).await.expect("open");
        let [flags] = flags_of(&path)[..] else { panic!("{:?}", flags_of(&path)) };
        assert_eq!(flags & libc::O_DSYNC, 0);
        drop(plain);
    });
}

/// Only regular files: a FIFO under a segment's name neither opens nor stops the file thread. On
/// buffered handles, as O_DIRECT refuses most of what is no file by itself.
#[test]
fn what_is_no_file_is_refused() {
    on_each(|runtime| {
        let dir = fresh_dir(runtime, "fifo");
        let probed = direct::buffered(&dir).expect("the directory is writable");
        let options = options(runtime, &dir, 1);
        let main = main_of(move |_, platform| {
            let dir = dir.clone();
            async move {
                let fifo = dir.join("fifo");
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                let kind = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).expect("a FIFO");
                for (path, write) in [(&fifo, false), (&fifo, true), (&dir, false)] {
                    let how = Open { write, ..Open::default() };
                    let error = platform.disk().open(path, how).await.err().expect("it is no file");
                    assert_eq!((error.op, &error.path), (IoOp::Open, path));
                    assert_eq!(error.source.to_string(), "not a regular file");
                }
            }
        });
        let threads = ShardThreads::start_with(options, main, probed).expect("the runtime starts");
        assert_eq!(threads.join(), [ShardEnd::Clean]);
    });
}

/// Runs in a process of its own, as it takes the descriptors of the whole process.
#[test]
fn running_out_of_descriptors_is_an_error_like_any_other() {
    const CHILD: &str = "CORELOG_TEST_NOFILE";
    if std::env::var_os(CHILD).is_none() {
        let name = "runtime::tests::handles::running_out_of_descriptors_is_an_error_like_any_other";
        let child = std::process::Command::new(std::env::current_exe().expect("it runs"))
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("the test binary runs again");
        let said = String::from_utf8_lossy(&child.stderr).into_owned();
        assert!(child.status.success(), "{said}");
        assert!(String::from_utf8_lossy(&child.stdout).contains("1 passed"), "it ran: {said}");
        return;
    }
    on_shard("nofile", |platform, dir| async move {
        let old = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(48), ..old }).expect("a lower limit");
        let disk = platform.disk();
        let mut open = Vec::new();
        let error = loop {
            let how = Open { create_new: true, ..Open::default() };
            match disk.open(&dir.join(open.len().to_string()), how).await {
                Ok(file) => open.push(file),
                Err(error) => break error,
            }
        };
        assert_eq!(error.source.raw_os_error(), Some(libc::EMFILE), "{error}");
        assert_eq!((error.op, error.path), (IoOp::Open, dir.join(open.len().to_string())));
        // What is open works on, down to its close, and then there is room again.
        let first = open.swap_remove(0);
        first.write_at(pattern(disk, BLOCK, 1), 0).await.expect("write");
        first.set_len(100).await.expect("cut");
        first.sync().await.expect("sync");
        first.close().await.expect("close");
        let how = Open { create_new: true, ..Open::default() };
        open.push(disk.open(&dir.join("again"), how).await.expect("there is room again"));
        for file in open {
            file.close().await.expect("close");
        }
        setrlimit(Resource::Nofile, old).expect("the old limit");
    });
}
