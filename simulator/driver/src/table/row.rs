//! Rows of the table, the macro that makes them, and the look-up.

use gpumem_cuda_abi::CuProcAddressStatus;

/// The default stream that a null stream denotes in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The legacy stream, or no stream at all.
    Legacy,
    /// The calling thread's own (`_ptsz`, `_ptds`).
    PerThread,
}

/// One exported function.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The exported symbol, `cuMemAlloc_v2`.
    pub symbol: &'static str,
    /// The name without version and variant, `cuMemAlloc`.
    pub base: &'static str,
    /// The first CUDA version in which `base` means this symbol: 3020 is CUDA 3.2.
    pub since: u32,
    /// Its stream variant.
    pub variant: Variant,
    /// The exported function.
    pub function: unsafe extern "C" fn(),
}

impl Row {
    /// The function's address.
    pub fn address(&self) -> usize {
        self.function as usize
    }
}

/// The result of `cuGetProcAddress`: the newest variant of `name` up to the requested version and
/// the driver's own. A per-thread variant is preferred if requested; functions without a stream
/// have none.
///
/// # Errors
/// `SYMBOL_NOT_FOUND` for an unknown name, `VERSION_NOT_SUFFICIENT` if all variants of the name are
/// newer than the requested version.
pub fn look_up(
    name: &[u8],
    version: i32,
    per_thread: bool,
    driver: u32,
) -> Result<&'static Row, CuProcAddressStatus> {
    let of_name = |variant: Variant| {
        super::rows().filter(move |row| {
            row.base.as_bytes() == name && row.variant == variant && row.since <= driver
        })
    };
    let newest = |variant: Variant| {
        of_name(variant)
            .filter(|row| i64::from(row.since) <= i64::from(version))
            .max_by_key(|row| row.since)
    };
    let preferred = if per_thread {
        newest(Variant::PerThread)
    } else {
        None
    };
    preferred
        .or_else(|| newest(Variant::Legacy))
        .ok_or_else(|| match of_name(Variant::Legacy).next() {
            Some(_) => CuProcAddressStatus::VERSION_NOT_SUFFICIENT,
            None => CuProcAddressStatus::SYMBOL_NOT_FOUND,
        })
}

/// Makes the exports of a family and its rows.
///
/// An export jumps to the function behind it and does not touch the parameters. So several symbols
/// share one function, and the table need not repeat signatures.
macro_rules! rows {
    ($($symbol:ident $base:literal $since:literal $variant:ident $function:path;)*) => {
        $(
            #[doc = concat!("`", stringify!($symbol), "`.")]
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $symbol() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!("jmp {}", sym $function);
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!("b {}", sym $function);
            }
        )*

        /// The rows of this family.
        pub static ROWS: &[$crate::table::Row] = &[
            $($crate::table::Row {
                symbol: stringify!($symbol),
                base: $base,
                since: $since,
                variant: $crate::table::Variant::$variant,
                function: $symbol,
            },)*
        ];
    };
}
pub(super) use rows;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn symbol(name: &str, version: i32, per_thread: bool) -> Result<&'static str, u32> {
        look_up(name.as_bytes(), version, per_thread, 13020)
            .map(|row| row.symbol)
            .map_err(|status| status.0)
    }

    #[test]
    fn the_newest_form_that_is_old_enough() {
        assert_eq!(symbol("cuMemAlloc", 13020, false), Ok("cuMemAlloc_v2"));
        assert_eq!(symbol("cuMemAlloc", 3020, false), Ok("cuMemAlloc_v2"));
        assert_eq!(symbol("cuMemAlloc", 2000, false), Ok("cuMemAlloc"));
        assert_eq!(symbol("cuMemAllocAsync", 11010, false), Err(2));
        assert_eq!(symbol("cuMemAlloc_v2", 13020, false), Err(1));
        assert_eq!(symbol("", 0, false), Err(1));
        assert_eq!(
            symbol("cuCtxSynchronize", 12090, false),
            Ok("cuCtxSynchronize")
        );
        assert_eq!(
            symbol("cuCtxSynchronize", 13000, false),
            Ok("cuCtxSynchronize_v2")
        );
        assert_eq!(symbol("cuCtxCreate", 13000, false), Ok("cuCtxCreate_v4"));
        assert_eq!(
            symbol("cuGetProcAddress", 11030, false),
            Ok("cuGetProcAddress")
        );
        assert_eq!(
            symbol("cuGetProcAddress", 12000, false),
            Ok("cuGetProcAddress_v2")
        );
    }

    #[test]
    fn per_thread_forms_where_there_are_any() {
        assert_eq!(
            symbol("cuMemAllocAsync", 11020, true),
            Ok("cuMemAllocAsync_ptsz")
        );
        assert_eq!(
            symbol("cuMemcpyHtoD", 7000, true),
            Ok("cuMemcpyHtoD_v2_ptds")
        );
        assert_eq!(symbol("cuMemcpyHtoD", 5000, true), Ok("cuMemcpyHtoD_v2"));
        assert_eq!(symbol("cuMemAlloc", 13020, true), Ok("cuMemAlloc_v2"));
    }

    #[test]
    fn an_old_driver_lacks_what_came_later() {
        let status = look_up(b"cuMemAllocAsync", 13020, false, 10020).map(|row| row.symbol);
        assert_eq!(status, Err(CuProcAddressStatus::SYMBOL_NOT_FOUND));
    }

    #[test]
    fn no_symbol_and_no_answer_is_there_twice() {
        let mut symbols = BTreeSet::new();
        let mut answers = BTreeSet::new();
        for row in super::super::rows() {
            assert!(symbols.insert(row.symbol), "{} twice", row.symbol);
            let answer = (row.base, row.since, row.variant == Variant::PerThread);
            assert!(answers.insert(answer), "{} twice", row.base);
            assert!(row.symbol.starts_with(row.base), "{}", row.symbol);
        }
    }
}
