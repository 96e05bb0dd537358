//! One safe wrapper for each driver function that these libraries use, from one table.
//!
//! The wrappers keep CUDA's names. They are safe to call because every pointer among their
//! parameters is a type of [`crate::ffi`], whose makers vouch for it, and because handles and
//! device addresses are numbers that the driver checks.
#![allow(non_snake_case)]

mod code;
mod device;
mod graph;
mod memory;
mod stream;

pub use code::*;
pub use device::*;
pub use graph::*;
pub use memory::*;
pub use stream::*;

use crate::driver::Wanted;

/// Makes the wrappers of a family, and its part of the list of what is wanted.
///
/// A row: the wrapper's name, the version asked for, the parameters. `per_thread NAME` before the
/// version asks for the variant of NAME whose null stream is the calling thread's own.
macro_rules! functions {
    ($first:expr; $($(#[$doc:meta])* $name:ident $(per_thread $base:ident)? $version:literal ($($argument:ident: $kind:ty),* $(,)?);)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index { $($name,)* End }

        /// How many functions the family has.
        pub(super) const COUNT: usize = Index::End as usize;

        /// What the family wants of the driver.
        pub(super) const WANTED: [$crate::driver::Wanted; COUNT] =
            [$(functions!(@wanted $name $(per_thread $base)? $version),)*];

        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[doc = ""]
            #[doc = "# Errors"]
            #[doc = "The driver's own, or that there is no driver, or none new enough."]
            $(#[$doc])*
            #[allow(clippy::too_many_arguments)]
            pub fn $name($($argument: $kind),*) -> $crate::ffi::Answer {
                let driver = $crate::driver::Driver::get()?;
                let address = driver.address($first + Index::$name as usize)?;
                // SAFETY: the driver gave this address for this name and version, whose signature
                // in cuda.h is the row's.
                let function = unsafe {
                    std::mem::transmute::<
                        usize,
                        extern "C" fn($($kind),*) -> gpumem_cuda_abi::CuResult,
                    >(address)
                };
                $crate::ffi::check(function($($argument),*))
            }
        )*
    };
    (@wanted $name:ident per_thread $base:ident $version:literal) => {
        $crate::driver::Wanted { name: functions!(@text $base), version: $version, flags: 2 }
    };
    (@wanted $name:ident $version:literal) => {
        $crate::driver::Wanted { name: functions!(@text $name), version: $version, flags: 0 }
    };
    (@text $name:ident) => {
        // A name has no zero byte before its end, so the other arm is never taken.
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        }
    };
}
pub(crate) use functions;

const DEVICE: usize = 0;
const MEMORY: usize = DEVICE + device::COUNT;
const STREAM: usize = MEMORY + memory::COUNT;
const CODE: usize = STREAM + stream::COUNT;
const GRAPH: usize = CODE + code::COUNT;
const ALL: usize = GRAPH + graph::COUNT;

/// Everything that is wanted of the driver, in the order in which it is asked for.
pub static WANTED: [Wanted; ALL] = {
    let families: [&[Wanted]; 5] = [
        &device::WANTED,
        &memory::WANTED,
        &stream::WANTED,
        &code::WANTED,
        &graph::WANTED,
    ];
    let mut all = [Wanted {
        name: c"",
        version: 0,
        flags: 0,
    }; ALL];
    let (mut family, mut filled) = (0, 0);
    while family < families.len() {
        let mut row = 0;
        while row < families[family].len() {
            all[filled] = families[family][row];
            filled += 1;
            row += 1;
        }
        family += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_name_and_is_asked_for_once() {
        let mut seen = std::collections::BTreeSet::new();
        for wanted in &WANTED {
            assert!(wanted.name.to_bytes().starts_with(b"cu"), "{wanted:?}");
            assert!(
                seen.insert((wanted.name, wanted.flags)),
                "twice: {wanted:?}"
            );
        }
    }

    #[test]
    fn the_families_lie_where_their_wrappers_look() {
        assert_eq!(WANTED[DEVICE].name, c"cuInit");
        assert_eq!(WANTED[MEMORY].name, c"cuMemGetInfo");
        assert_eq!(WANTED[STREAM].name, c"cuStreamCreate");
        assert_eq!(WANTED[CODE].name, c"cuLibraryLoadData");
        assert_eq!(WANTED[GRAPH].name, c"cuGraphCreate");
    }
}
