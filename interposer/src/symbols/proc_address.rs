//! `cuGetProcAddress` and `_v2`: the real one answers; where its answer is a hooked function, the hook
//! is handed out instead.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

use gpumem_cuda_abi::CuResult;

use crate::symbols::table::{self, ALL, Hook, Way};
use crate::symbols::{libraries, order, table::Home};

/// Reads the driver's own exports of all hooked names, once.
pub(crate) fn resolve_exports() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.load(Ordering::Acquire) {
        return;
    }
    let mut any = false;
    for hook in ALL.iter().copied().filter(|hook| hook.is_driver()) {
        let found = libraries::find(Home::Driver, hook.name, hook.address());
        if found != 0 && found != hook.address() && !order::before_us(found) {
            hook.set_exported(found);
            any = true;
        }
    }
    DONE.store(any, Ordering::Release);
}

/// The hook in whose place `found` stands, by address: the driver hands out its own exports.
fn by_address(found: usize) -> Option<&'static Hook> {
    resolve_exports();
    ALL.iter()
        .copied()
        .find(|hook| hook.is_driver() && hook.exported() == found)
}

/// Whether `found` is where an exported function begins.
fn is_an_export(found: usize) -> bool {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr fills the structure or leaves it zeroed, which is a valid value of it.
    let info = unsafe {
        libc::dladdr(found as *const c_void, info.as_mut_ptr());
        info.assume_init()
    };
    !info.dli_sname.is_null() && info.dli_saddr as usize == found
}

/// The hook for a name without suffix, a version and flags, should the driver hand out an address that
/// it does not export: the newest function of that name that the version may have.
fn by_request(name: &[u8], version: c_int, flags: u64) -> Option<&'static Hook> {
    const PER_THREAD_STREAM: u64 = 2;
    /// Name without suffix, first version, exported name for the legacy and the per-thread stream.
    type Answer = (&'static [u8], c_int, &'static [u8], &'static [u8]);
    const REQUESTS: &[Answer] = &[
        (b"cuMemAlloc", 3020, b"cuMemAlloc_v2", b"cuMemAlloc_v2"),
        (
            b"cuMemAllocPitch",
            3020,
            b"cuMemAllocPitch_v2",
            b"cuMemAllocPitch_v2",
        ),
        (
            b"cuMemAllocManaged",
            6000,
            b"cuMemAllocManaged",
            b"cuMemAllocManaged",
        ),
        (b"cuMemFree", 3020, b"cuMemFree_v2", b"cuMemFree_v2"),
        (
            b"cuMemAllocHost",
            3020,
            b"cuMemAllocHost_v2",
            b"cuMemAllocHost_v2",
        ),
        (
            b"cuMemHostAlloc",
            2020,
            b"cuMemHostAlloc",
            b"cuMemHostAlloc",
        ),
        (b"cuMemFreeHost", 2000, b"cuMemFreeHost", b"cuMemFreeHost"),
        (
            b"cuMemAllocAsync",
            11020,
            b"cuMemAllocAsync",
            b"cuMemAllocAsync_ptsz",
        ),
        (
            b"cuMemFreeAsync",
            11020,
            b"cuMemFreeAsync",
            b"cuMemFreeAsync_ptsz",
        ),
        (
            b"cuMemAllocFromPoolAsync",
            11020,
            b"cuMemAllocFromPoolAsync",
            b"cuMemAllocFromPoolAsync_ptsz",
        ),
        (b"cuMemCreate", 10020, b"cuMemCreate", b"cuMemCreate"),
        (
            b"cuMemRetainAllocationHandle",
            11000,
            b"cuMemRetainAllocationHandle",
            b"cuMemRetainAllocationHandle",
        ),
        (
            b"cuMemImportFromShareableHandle",
            10020,
            b"cuMemImportFromShareableHandle",
            b"cuMemImportFromShareableHandle",
        ),
        (
            b"cuDevicePrimaryCtxRetain",
            7000,
            b"cuDevicePrimaryCtxRetain",
            b"cuDevicePrimaryCtxRetain",
        ),
        (
            b"cuDevicePrimaryCtxRelease",
            7000,
            b"cuDevicePrimaryCtxRelease",
            b"cuDevicePrimaryCtxRelease",
        ),
        (
            b"cuDevicePrimaryCtxRelease",
            11000,
            b"cuDevicePrimaryCtxRelease_v2",
            b"cuDevicePrimaryCtxRelease_v2",
        ),
        (
            b"cuDevicePrimaryCtxReset",
            7000,
            b"cuDevicePrimaryCtxReset",
            b"cuDevicePrimaryCtxReset",
        ),
        (
            b"cuDevicePrimaryCtxReset",
            11000,
            b"cuDevicePrimaryCtxReset_v2",
            b"cuDevicePrimaryCtxReset_v2",
        ),
        (b"cuCtxCreate", 3020, b"cuCtxCreate_v2", b"cuCtxCreate_v2"),
        (b"cuCtxCreate", 11040, b"cuCtxCreate_v3", b"cuCtxCreate_v3"),
        (b"cuCtxCreate", 12050, b"cuCtxCreate_v4", b"cuCtxCreate_v4"),
        (
            b"cuCtxDestroy",
            4000,
            b"cuCtxDestroy_v2",
            b"cuCtxDestroy_v2",
        ),
        (b"cuMemRelease", 10020, b"cuMemRelease", b"cuMemRelease"),
        (b"cuMemMap", 10020, b"cuMemMap", b"cuMemMap"),
        (b"cuMemUnmap", 10020, b"cuMemUnmap", b"cuMemUnmap"),
        (
            b"cuGetProcAddress",
            11030,
            b"cuGetProcAddress",
            b"cuGetProcAddress",
        ),
        (
            b"cuGetProcAddress",
            12000,
            b"cuGetProcAddress_v2",
            b"cuGetProcAddress_v2",
        ),
    ];
    REQUESTS
        .iter()
        .filter(|(base, first, ..)| *base == name && *first <= version)
        .max_by_key(|(_, first, ..)| *first)
        .and_then(|(_, _, legacy, per_thread)| {
            table::by_name(if flags & PER_THREAD_STREAM != 0 {
                per_thread
            } else {
                legacy
            })
        })
}

/// What a client asked for.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) symbol: *const c_char,
    pub(crate) function: *mut *mut c_void,
    pub(crate) version: c_int,
    pub(crate) flags: u64,
    /// An address in the client.
    pub(crate) caller: usize,
}

/// Replaces an answer of the driver's by the hook for it.
///
/// # Safety
/// `symbol` is null or NUL-terminated; `function` is null or writable.
pub(crate) unsafe fn substitute(result: CuResult, request: Request) {
    let Request {
        symbol: name,
        function,
        version,
        flags,
        caller,
    } = request;
    if !result.is_success() || name.is_null() || function.is_null() {
        return;
    }
    // SAFETY: checked for null; the caller promises that it is writable.
    let found = unsafe { *function } as usize;
    // A driver that calls its own exports by name is answered by our inner hook.
    if found == 0 || ALL.iter().any(|hook| hook.address() == found) {
        return;
    }
    // SAFETY: checked for null; the caller promises a NUL at the end.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let hook = match by_address(found) {
        Some(hook) => hook,
        None => match by_request(name, version, flags) {
            // Another export than the hooked one: a newer form, whose arguments may differ.
            Some(hook) if is_an_export(found) => {
                crate::account::unhooked(hook.id);
                return;
            }
            Some(hook) => hook,
            None => return,
        },
    };
    hook.adopt(found);
    table::armed(hook, Way::ProcAddress, caller);
    // SAFETY: as above.
    unsafe { *function = hook.address() as *mut c_void };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(name: &[u8], version: c_int, flags: u64) -> Option<&'static str> {
        by_request(name, version, flags).and_then(|hook| hook.name.to_str().ok())
    }

    #[test]
    fn requests_name_the_newest_that_the_version_has() {
        assert_eq!(requested(b"cuMemAlloc", 13000, 0), Some("cuMemAlloc_v2"));
        assert_eq!(requested(b"cuMemAlloc", 2000, 0), None);
        assert_eq!(
            requested(b"cuMemAllocAsync", 12000, 2),
            Some("cuMemAllocAsync_ptsz")
        );
        assert_eq!(
            requested(b"cuMemAllocAsync", 12000, 1),
            Some("cuMemAllocAsync")
        );
        assert_eq!(
            requested(b"cuGetProcAddress", 11030, 0),
            Some("cuGetProcAddress")
        );
        assert_eq!(
            requested(b"cuGetProcAddress", 12000, 0),
            Some("cuGetProcAddress_v2")
        );
        assert_eq!(requested(b"cuMemcpy", 12000, 0), None);
    }
}
