//! Exports from tables.

/// Makes `extern "C"` exports from rows, and the list of their names.
///
/// A row: the exported name, its parameters as C passes them, its return type, and the function
/// that implements it. Parameters are converted (`Into`), so one function serves the variants of a
/// name that differ in the width of an integer.
#[macro_export]
macro_rules! exports {
    ($($name:ident ($($argument:ident: $kind:ty),* $(,)?) -> $answer:ty = $inside:path;)*) => {
        /// The names of this family.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments, clippy::useless_conversion)]
            pub extern "C" fn $name($($argument: $kind),*) -> $answer {
                $inside($($argument.into()),*)
            }
        )*
    };
}
