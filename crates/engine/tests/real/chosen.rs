//! Which runtime the engines of these tests run on: glommio, or what the environment says. Tests
//! alone read it, never the engine.

use corelog::machine::Runtime;

const VARIABLE: &str = "CORELOG_TEST_RUNTIME";

/// The runtime of this run.
pub(crate) fn runtime() -> Runtime {
    match std::env::var(VARIABLE) {
        Ok(word) => word.parse().unwrap_or_else(|error| panic!("{VARIABLE}: {error}")),
        Err(_) => Runtime::default(),
    }
}
