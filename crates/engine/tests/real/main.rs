//! The engine through its public interface, on the real disk: directories under the target
//! directory, O_DIRECT, io_uring, no mocks.

mod first;
mod support;
