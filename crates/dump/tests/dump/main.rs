//! The real binary on real and on damaged files: one module a theme.

mod damage;
mod decode;
mod diff;
mod extract;
mod files;
mod follow;
mod hex;
mod index;
mod live;
mod mark;
mod real_segment;
mod select;
mod show;
mod snapshots;
mod stats;
mod support;
mod vast;
