//! The names of the functions: exported by the driver, and for `cuGetProcAddress`.

use crate::rows::rows;

/// The driver's result code for unsupported functions.
pub const NOT_SUPPORTED: u32 = 801;

/// The names of a function: exported by the driver, and for `cuGetProcAddress`.
pub struct Function {
    /// The exported name.
    pub symbol: &'static str,
    /// The name without version and variant; empty for the runtime's functions, which programs bind
    /// by name.
    pub base: &'static str,
    /// The CUDA versions in which `base` is this function: from the first, up to before the second.
    pub versions: (i32, i32),
    /// Whether it is the form for the per-thread default stream.
    pub per_thread: bool,
}

/// A version above the newest one.
const NOW: i32 = 99_990;

macro_rules! per_thread {
    (Legacy) => {
        false
    };
    (PerThread) => {
        true
    };
}

macro_rules! functions {
    ($($name:ident = $base:literal $since:literal..$until:tt $variant:ident
        ($($arg:ident: $type:ty),* $(,)?);)*) => {
        /// The index of a function in [`ALL`].
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Api { $(#[doc = stringify!($name)] $name),* }

        /// Every function.
        pub static ALL: &[Function] = &[$(Function {
            symbol: stringify!($name),
            base: $base,
            versions: ($since, $until),
            per_thread: per_thread!($variant),
        }),*];
    };
}
rows!(functions);

/// A function's exported name.
pub fn name_of(api: Api) -> &'static str {
    ALL.get(api as usize).map_or("", |function| function.symbol)
}
