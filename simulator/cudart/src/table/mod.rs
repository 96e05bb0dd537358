//! Every export of the library.
//!
//! A row has what the function needs before it runs (`nothing`, the `driver`, or a `context`), its
//! name, its parameters as C passes them, and the function that implements it. Where that is the
//! driver's own (`cu::…`), the runtime adds nothing.

mod arrays;
mod code;
mod copies;
mod devices;
mod graphs;
mod memory;
mod special;
mod streams;
mod unsupported;

use crate::stream::PER_THREAD_STREAM;
use gpumem_sim_client::ffi::Handle;

/// A stream parameter of a `_ptsz` function: null means the thread's own.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct OwnStream(Handle);

impl From<OwnStream> for Handle {
    fn from(stream: OwnStream) -> Self {
        match stream.0 {
            0 => PER_THREAD_STREAM,
            other => other,
        }
    }
}

/// Makes exports from rows, and the list of their names.
macro_rules! exports {
    ($($need:ident $name:ident ($($argument:ident: $kind:ty),* $(,)?) = $inside:path;)*) => {
        /// The names of this family.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments, clippy::useless_conversion)]
            pub extern "C" fn $name($($argument: $kind),*) -> gpumem_cuda_abi::CudaError {
                $crate::thread::answer(|| {
                    $crate::context::$need()?;
                    $inside($($argument.into()),*)
                })
            }
        )*
    };
}
pub(crate) use exports;

/// Everything that the library exports, in no particular order.
pub fn names() -> impl Iterator<Item = &'static str> {
    [
        arrays::NAMES,
        code::NAMES,
        copies::NAMES,
        devices::NAMES,
        graphs::NAMES,
        memory::NAMES,
        special::NAMES,
        streams::NAMES,
        unsupported::NAMES,
    ]
    .into_iter()
    .flatten()
    .copied()
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_name_is_exported_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for name in super::names() {
            assert!(seen.insert(name), "{name}");
        }
    }

    #[test]
    fn a_null_stream_of_ptsz_functions_is_the_threads_own() {
        use super::{Handle, OwnStream};
        assert_eq!(Handle::from(OwnStream(0)), 2);
        assert_eq!(Handle::from(OwnStream(1)), 1);
    }
}
