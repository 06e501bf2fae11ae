//! Every encoding of the specification against vectors that were made from the specification
//! alone, and against input that means harm.

mod batches;
mod builders;
mod codecs;
mod hostile;
mod json;
mod rows;
mod vectors;
