//! `corelog-dump`: see `lib.rs`.

fn main() -> std::process::ExitCode {
    corelog_dump::main()
}
