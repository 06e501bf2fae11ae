//! The binary `corelog-bench`; everything is in the library, which the micro benchmarks share.

use std::process::ExitCode;

use corelog::machine::HugePageAlloc;

/// The engine's buffers on 2 MiB pages from the start: the device then gets a request in one piece.
#[global_allocator]
static ALLOCATOR: HugePageAlloc = HugePageAlloc;

fn main() -> ExitCode {
    corelog_bench::main()
}
