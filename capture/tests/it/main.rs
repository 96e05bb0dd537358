//! The crate's integration tests: written records are read back, however the process ends.

mod backing;
mod bounded;
mod bounded_damage;
mod damage;
mod elsewhere;
mod elsewhere_refused;
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
