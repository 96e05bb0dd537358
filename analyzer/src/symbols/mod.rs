//! Names of native functions: those baked into the capture, else those of files with the module's
//! build id.

mod bake;
mod elf;
mod lookup;
mod parts;
mod perf_map;
mod place;
mod readable;
mod resolver;
mod search;
#[cfg(test)]
mod tests;
mod work;

pub use bake::{Nameless, Spots};
pub use perf_map::PerfMap;
pub use place::{Source, is_interpreter, is_recorder};
pub use resolver::Symbols;
pub use search::Places;
pub use work::Work;
