//! The binary as people and scripts meet it; one program of tests, as linking it takes longest.

mod cli;
mod presets;
mod reports;
mod schema;
mod support;
