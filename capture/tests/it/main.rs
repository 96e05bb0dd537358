//! The crate's integration tests: what is written, however its process ends, is what is read.

mod bounded;
mod bounded_damage;
mod damage;
mod elsewhere;
mod embedded;
mod files;
mod follow;
mod fuzz;
mod held;
mod kill;
mod live;
mod loss;
mod ring;
mod room;
mod round_trip;
mod support;
