//! Every name that the simulated driver exports, in one table.
//!
//! A row is: the exported symbol, the base name that `cuGetProcAddress` is asked for, the CUDA
//! version that brought this form of it, its stream variant, and the function behind it. One macro
//! makes of each row both the export and the answer, so the two cannot disagree. The rows are split
//! into files by family; versions are those of cudaTypedefs.h.

mod row;

mod arrays;
mod copies;
mod devices;
mod graphics;
mod graphs;
mod memory;
mod modules;
mod streams;

pub use row::{Row, Variant, look_up};

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    [
        arrays::ROWS,
        copies::ROWS,
        devices::ROWS,
        graphics::ROWS,
        graphs::ROWS,
        memory::ROWS,
        modules::ROWS,
        streams::ROWS,
    ]
    .into_iter()
    .flatten()
}
