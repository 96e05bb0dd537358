//! Exports of routines, from rows.

/// Makes exports from rows: names that share a signature (a routine in its four types), their
/// parameters, and the call that implements them. Unused parameters begin with an underscore.
macro_rules! routines {
    ($($($name:ident)*: $parameters:tt => $inside:ident $arguments:tt;)*) => {
        /// The names of this family.
        pub const NAMES: &[&str] = &[$($(stringify!($name),)*)*];

        $($(routines!(@one $name $parameters $inside $arguments);)*)*
    };
    (@one $name:ident ($($parameter:ident: $kind:ty),*) $inside:ident ($($argument:expr),*)) => {
        #[doc = concat!("`", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub extern "C" fn $name($($parameter: $kind),*) -> $crate::status::SolverStatus {
            $crate::solve::$inside($($argument),*)
        }
    };
}
pub(super) use routines;
