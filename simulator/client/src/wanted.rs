//! The driver functions that these libraries look up.

use std::ffi::CStr;

use crate::rows::rows;

/// A request to `cuGetProcAddress`.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The name without version or variant.
    pub name: &'static CStr,
    /// The CUDA version whose signature is requested: 3020 is CUDA 3.2.
    pub version: i32,
    /// 0, or 2 for the variant whose null stream is the thread's own.
    pub flags: u64,
}

macro_rules! wanted {
    ($($name:ident $(per_thread $base:ident)? $version:literal ($($argument:ident: $kind:ty),* $(,)?);)*) => {
        /// A function's index in [`WANTED`].
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy, Debug)]
        pub enum Function { $(#[doc = concat!("`", stringify!($name), "`.")] $name,)* }

        /// Every driver function that is looked up, in the order of the requests.
        pub static WANTED: &[Wanted] = &[$(wanted!(@row $name $(per_thread $base)? $version),)*];
    };
    (@row $name:ident per_thread $base:ident $version:literal) => {
        Wanted { name: wanted!(@text $base), version: $version, flags: 2 }
    };
    (@row $name:ident $version:literal) => {
        Wanted { name: wanted!(@text $name), version: $version, flags: 0 }
    };
    (@text $name:ident) => {
        // A name contains no zero byte, so the other arm is never taken.
        match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        }
    };
}
rows!(wanted);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_name_and_is_asked_for_once() {
        let mut seen = std::collections::BTreeSet::new();
        for wanted in WANTED {
            assert!(wanted.name.to_bytes().starts_with(b"cu"), "{wanted:?}");
            assert!(
                seen.insert((wanted.name, wanted.flags)),
                "twice: {wanted:?}"
            );
        }
    }

    #[test]
    fn a_functions_place_is_its_rows() {
        assert_eq!(WANTED[Function::cuInit as usize].name, c"cuInit");
        let variant = WANTED[Function::cuMemAllocAsync_ptsz as usize];
        assert_eq!((variant.name, variant.flags), (c"cuMemAllocAsync", 2));
        assert_eq!(
            WANTED[Function::cuGraphCreate as usize].name,
            c"cuGraphCreate"
        );
    }
}
