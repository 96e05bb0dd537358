//! Every name that the simulated driver exports, in one table.
//!
//! A row has the exported symbol, the base name in requests to `cuGetProcAddress`, the CUDA version
//! that introduced this signature, its stream variant, and the function behind it. One macro makes
//! both the export and the look-up entry from each row, so they always agree. The rows are split
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
