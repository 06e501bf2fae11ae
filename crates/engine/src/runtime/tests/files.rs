//! Files: what is written comes back, ends where it ends, and errors keep their number.

use corelog_io::{File, IoOp, Open};

use super::*;

const CREATE: Open =
    Open { write: true, create_new: true, dsync: false, lock: false, short: false };
const READ: Open =
    Open { write: false, create_new: false, dsync: false, lock: false, short: false };

#[test]
fn what_is_written_is_read_back() {
    on_shard("round_trip", |platform, dir| async move {
        let disk = platform.disk();
        let path = dir.join("file");
        let file = disk.open(&path, CREATE).await.expect("create");
        file.write_at(pattern(disk, MIB, 1), 0).await.expect("write");
        file.write_at(pattern(disk, BLOCK, 2), MIB as u64).await.expect("write");
        let read = file.read_at(0, MIB).await.expect("read");
        assert!(read.as_ref() == patterned(MIB, 1));
        file.sync().await.expect("sync");
        file.close().await.expect("close");
        let file = disk.open(&path, READ).await.expect("open again");
        let read = file.read_at(MIB as u64, BLOCK).await.expect("read");
        assert!(read.as_ref() == patterned(BLOCK, 2));
        assert_eq!(file.len().await.expect("length"), (MIB + BLOCK) as u64);
        file.close().await.expect("close");
    });
}

#[test]
fn reads_end_where_the_file_ends() {
    on_shard("eof", |platform, dir| async move {
        let disk = platform.disk();
        let file = disk.open(&dir.join("file"), CREATE).await.expect("create");
        file.write_at(pattern(disk, 2 * BLOCK, 3), 0).await.expect("write");
        // At a block boundary, across it, and beyond.
        assert_eq!(file.read_at(0, 4 * BLOCK).await.expect("read").as_ref().len(), 2 * BLOCK);
        let block = BLOCK as u64;
        assert!(file.read_at(2 * block, BLOCK).await.expect("read").as_ref().is_empty());
        assert!(file.read_at(900 * block, BLOCK).await.expect("read").as_ref().is_empty());
        // Inside a block: 5000 bytes, of which 904 in the second one.
        file.set_len(5000).await.expect("cut");
        let read = file.read_at(0, 4 * BLOCK).await.expect("read");
        assert!(read.as_ref() == &patterned(2 * BLOCK, 3)[..5000]);
        assert_eq!(file.read_at(block, BLOCK).await.expect("read").as_ref().len(), 904);
        assert_eq!(disk.bytes_held().1, BLOCK.next_power_of_two() * 4, "one read is still held");
        drop(read);
        assert_eq!(disk.bytes_held(), (0, 0));
        file.close().await.expect("close");
    });
}

#[test]
fn errors_name_operation_path_and_position_and_keep_the_number() {
    on_shard("errors", |platform, dir| async move {
        let disk = platform.disk();
        let missing = disk.open(&dir.join("none"), READ).await.err().expect("it is not there");
        assert!(missing.is_not_found() && missing.op == IoOp::Open);
        assert_eq!(missing.path, dir.join("none"));
        let file = disk.open(&dir.join("file"), CREATE).await.expect("create");
        let again = disk.open(&dir.join("file"), CREATE).await.err().expect("it exists");
        assert_eq!(again.source.raw_os_error(), Some(libc::EEXIST));
        file.write_at(pattern(disk, BLOCK, 0), 0).await.expect("write");
        file.close().await.expect("close");

        let file = disk.open(&dir.join("file"), READ).await.expect("open");
        let error = file.write_at(pattern(disk, BLOCK, 0), 4096).await.expect_err("read-only");
        assert_eq!((error.op, error.at), (IoOp::Write, Some(4096)));
        assert_eq!(error.source.raw_os_error(), Some(libc::EBADF));
        let error = file.read_at(1, BLOCK).await.err().expect("not a block");
        assert_eq!((error.op, error.at), (IoOp::Read, Some(1)));
        let error = file.read_at(0, 64 * MIB).await.err().expect("larger than the budget");
        assert!(error.to_string().contains("whole budget is 4194304"), "{error}");
        file.close().await.expect("close");
    });
}
