//! The engine through its public interface, on the real disk: directories under the target
//! directory, O_DIRECT, io_uring, no mocks.

mod adopt;
mod callers;
mod catalog;
mod chosen;
mod consumers;
mod directories;
mod embedding;
mod emptying;
mod examples;
mod file_systems;
mod full_disk;
mod groups;
mod leaks;
mod life;
mod limits;
mod log;
mod no_direct_io;
mod order;
mod own_dir;
mod panics;
mod processes;
mod protocol;
mod refusals;
mod refusing_fs;
mod removed_files;
mod runtimes;
mod shards;
mod small_disk;
mod space;
mod statistics;
mod support;
mod topic_options;
mod views;
