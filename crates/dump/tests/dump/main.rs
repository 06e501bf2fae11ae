//! The real binary on real and on damaged files: one module a theme.

mod about;
mod damage;
mod decode;
mod diff;
mod extract;
mod files;
mod flags;
mod follow;
mod hex;
mod index;
mod live;
mod mark;
mod motion;
mod real_segment;
mod schema;
mod select;
mod show;
mod snapshots;
mod stats;
mod support;
mod terminal;
mod upkeep;
mod vast;
mod zoo;
