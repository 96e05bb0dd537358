//! The exported functions. Each passes its caller's stack pointer and frame pointer to the body as two
//! more arguments, in registers for arguments that are otherwise unused. So no signal handler can
//! overwrite them.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use gpumem_unwind::{Registers, modules};

use crate::compare::{self, Fault};
use crate::counts::Entry;

/// The machine code of an exported function.
macro_rules! tell_and_go_on {
    ($body:path) => {
        core::arch::naked_asm!(
            "movq xmm0, rsp",
            "movq xmm1, rbp",
            "jmp {body}",
            body = sym $body,
        )
    };
}

/// The registers from the exported function's arguments.
#[inline(always)]
fn caller(sp: f64, bp: f64) -> Registers {
    let sp = sp.to_bits();
    Registers {
        // SAFETY: the return address of the call in progress.
        pc: unsafe { *(sp as *const u64) },
        sp: sp.wrapping_add(8),
        bp: bp.to_bits(),
    }
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_free(at: *mut c_void);
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
}

/// Compares at each call.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn unwind_check_here() {
    tell_and_go_on!(here)
}

extern "C" fn here(sp: f64, bp: f64) {
    compare::always(Entry::Here, caller(sp, bp));
}

/// `malloc`, for every program that preloads this library.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    tell_and_go_on!(malloc_body)
}

extern "C" fn malloc_body(size: usize, sp: f64, bp: f64) -> *mut c_void {
    compare::sometimes(Entry::Malloc, caller(sp, bp));
    // SAFETY: the caller's own argument.
    unsafe { __libc_malloc(size) }
}

/// `calloc`, for every program that preloads this library.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    tell_and_go_on!(calloc_body)
}

extern "C" fn calloc_body(count: usize, size: usize, sp: f64, bp: f64) -> *mut c_void {
    compare::sometimes(Entry::Calloc, caller(sp, bp));
    // SAFETY: the caller's own arguments.
    unsafe { __libc_calloc(count, size) }
}

/// `free`, for every program that preloads this library.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn free(at: *mut c_void) {
    tell_and_go_on!(free_body)
}

extern "C" fn free_body(at: *mut c_void, sp: f64, bp: f64) {
    compare::sometimes(Entry::Free, caller(sp, bp));
    // SAFETY: the caller's own argument.
    unsafe { __libc_free(at) }
}

/// `posix_memalign`, for every program that preloads this library: PyTorch's CPU memory.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    tell_and_go_on!(posix_memalign_body)
}

extern "C" fn posix_memalign_body(
    out: *mut *mut c_void,
    alignment: usize,
    size: usize,
    sp: f64,
    bp: f64,
) -> c_int {
    compare::sometimes(Entry::PosixMemalign, caller(sp, bp));
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return libc::EINVAL;
    }
    // SAFETY: the caller's alignment is valid for the function.
    let found = unsafe { __libc_memalign(alignment, size) };
    if found.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller provides a variable for the result.
    unsafe { *out = found };
    0
}

/// The function that PyTorch 2.x calls when it allocates or frees the memory of a tensor.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
    at: *mut c_void,
    size: i64,
    allocated: usize,
    reserved: usize,
    device: u16,
) {
    tell_and_go_on!(pytorch)
}

type Report = unsafe extern "C-unwind" fn(*mut c_void, i64, usize, usize, u16);

extern "C-unwind" fn pytorch(
    at: *mut c_void,
    size: i64,
    allocated: usize,
    reserved: usize,
    device: u16,
    sp: f64,
    bp: f64,
) {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    compare::always(Entry::PyTorch, caller(sp, bp));
    let name = c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
    let real = once(&REAL, || {
        // SAFETY: the names are NUL-terminated, and no library is loaded.
        unsafe {
            let library = libc::dlopen(c"libc10.so".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            libc::dlsym(library, name.as_ptr())
        }
    });
    if real != 0 {
        // SAFETY: the address is that of PyTorch's function, whose type this is.
        let real = unsafe { core::mem::transmute::<usize, Report>(real) };
        // SAFETY: the caller's own arguments.
        unsafe { real(at, size, allocated, reserved, device) }
    }
}

/// `dlclose` with a check for unloaded modules afterwards, as in the recorder.
///
/// # Safety
/// The same as for `dlclose(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dlclose(handle: *mut c_void) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    type Real = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
    // SAFETY: the name is NUL-terminated.
    let find = || unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlclose".as_ptr()) };
    let real = once(&REAL, find);
    if real == 0 {
        return -1;
    }
    // SAFETY: the address is that of the C library's function, whose type this is.
    let real = unsafe { core::mem::transmute::<usize, Real>(real) };
    // SAFETY: the caller's own argument.
    let result = unsafe { real(handle) };
    if !compare::has_fault(Fault::Unloads) {
        modules::look();
    }
    result
}

fn once(word: &AtomicUsize, find: impl FnOnce() -> *mut c_void) -> usize {
    let mut found = word.load(Ordering::Relaxed);
    if found == 0 {
        found = find() as usize;
        word.store(found, Ordering::Relaxed);
    }
    found
}
