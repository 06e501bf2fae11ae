//! The engine through its public interface, on the real disk: directories under the target
//! directory, O_DIRECT, io_uring, no mocks.

mod adopt;
mod callers;
mod catalog;
mod consumers;
mod directories;
mod emptying;
mod file_systems;
mod full_disk;
mod groups;
mod life;
mod limits;
mod log;
mod no_direct_io;
mod order;
mod own_dir;
mod protocol;
mod refusals;
mod refusing_fs;
mod removed_files;
mod shards;
mod small_disk;
mod space;
mod support;
mod topic_options;
