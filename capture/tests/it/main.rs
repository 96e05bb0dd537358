//! The crate's integration tests: what is written, however its process ends, is what is read.

mod baked;
mod bounded;
mod damage;
mod files;
mod fuzz;
mod kill;
mod live;
mod loss;
mod ring;
mod round_trip;
mod support;
