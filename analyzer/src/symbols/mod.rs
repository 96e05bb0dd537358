//! Names of native functions: those embedded in the capture, else those of files with the module's build id.

mod elf;
#[doc(hidden)]
pub mod fuzzing;
mod lookup;
mod parts;
mod perf_map;
mod place;
mod readable;
mod resolver;
mod search;
mod spots;
mod table;
#[cfg(test)]
mod tests;
mod work;

pub use perf_map::PerfMap;
pub use place::{Source, is_interpreter, is_recorder};
pub use resolver::Symbols;
pub use search::Places;
pub use spots::{Nameless, Spots};
pub use work::Work;
