//! Which runtime the engines of this process run on: chosen once, by the program's `--runtime`, or for
//! a whole run of the tests by the environment.

use std::sync::OnceLock;

use corelog::machine::Runtime;

/// The environment's choice, for processes that were not told. Tests' support alone reads it, never
/// the engine.
const VARIABLE: &str = "CORELOG_TEST_RUNTIME";

static CHOSEN: OnceLock<Runtime> = OnceLock::new();

/// All engines of this process run on `runtime`, where one was given.
///
/// # Panics
///
/// Where others run already, on the other one.
pub fn choose(runtime: Option<Runtime>) {
    if let Some(runtime) = runtime {
        assert_eq!(*CHOSEN.get_or_init(|| runtime), runtime, "a process has one runtime");
    }
}

/// What the engines of this process run on.
///
/// # Panics
///
/// Where the environment names what is no runtime.
pub fn chosen() -> Runtime {
    *CHOSEN.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(word) => word.parse().unwrap_or_else(|error| panic!("{VARIABLE}: {error}")),
        Err(_) => Runtime::default(),
    })
}

/// The flag by which a program of ours runs on it as well.
pub fn flag() -> String {
    format!("--runtime={}", chosen())
}
