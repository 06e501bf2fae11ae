//! The engine through its public interface, on the real disk: directories under the target
//! directory, O_DIRECT, io_uring, no mocks.

mod adopt;
mod callers;
mod catalog;
mod consumers;
mod directories;
mod emptying;
mod full_disk;
mod life;
mod log;
mod no_direct_io;
mod order;
mod protocol;
mod refusals;
mod refusing_fs;
mod shards;
mod small_disk;
mod space;
mod support;
