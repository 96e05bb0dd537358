//! The fuzz targets as functions of bytes: what each reads, and the rules that hold for any input.
//!
//! fuzz/ runs them under libFuzzer, `tests/seeds.rs` on their seeds with all other tests. A rule that is broken panics.
//! Start reading at [`TARGETS`].

mod captures;
mod files;
mod requests;
mod seeds;

pub use seeds::{pack, unpack};

/// The targets' functions.
pub mod targets {
    pub use crate::captures::{definition, file, merge, names, page, ring, state, views};
    pub use crate::files::{budgets, library, lines, machine, perf_map, pickle, symbol};
    pub use crate::requests::{http, mcp};
}

/// A target: its name, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Pairs of names and functions.
macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), targets::$name as fn(&[u8]))),*]
    };
}

/// All targets.
pub const TARGETS: [Target; 17] = targets![
    page, ring, names, definition, file, merge, state, views, pickle, lines, library, perf_map,
    symbol, budgets, machine, http, mcp,
];
