//! Batches: built, admitted, stamped, sliced, damaged, and held against the reference
//! implementation and its files.

mod admission;
mod bits;
mod builder;
mod damage;
mod expectations;
mod make;
mod reference;
mod segment;
mod slices;
mod windows;
mod zero_hash;
mod zero_values;
