//! The real binary on real and on damaged files: one module a theme.

mod damage;
mod decode;
mod files;
mod index;
mod live;
mod mark;
mod real_segment;
mod select;
mod show;
mod support;
