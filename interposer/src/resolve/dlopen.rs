//! Our `dlopen`: removes `RTLD_DEEPBIND` from the flags and continues at the real function by a tail jump. Our
//! `dlmopen` only records what it loads.
//!
//! A library that is loaded with that flag searches its own dependencies before the global scope: its `dlsym` would be
//! the C library's, its `cuMemAlloc_v2` the driver's, and its calls would not be recorded. The jump keeps the caller's
//! return address where the C library looks for it, so that the caller's RPATH, RUNPATH, `$ORIGIN` and namespace stay
//! in force. docs/loading.md explains why the flag is removed.

use core::ffi::{CStr, c_char, c_int, c_long, c_void};

use super::loaded_names::What;
use super::real::REAL;
use crate::caller::naked_code;

/// `dlopen`, for every program under LD_PRELOAD.
///
/// # Safety
/// As `dlopen(3)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    naked_code!(
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "call {decide}", // the push has aligned the stack
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "mov esi, edx",
        "jmp rax";
        decide = sym decide,
    )
}

/// The jump target and the flags, returned in rax and rdx.
#[repr(C)]
struct Decision {
    address: usize,
    flags: usize,
}

unsafe extern "C" fn decide(file: *const c_char, flags: c_int) -> Decision {
    let mut address = REAL.dlopen.address();
    if address == 0 {
        address = nothing as *const () as usize;
    }
    let mut kept = flags;
    if flags & libc::RTLD_DEEPBIND != 0 && !file.is_null() {
        kept &= !libc::RTLD_DEEPBIND;
        // SAFETY: checked for null; the caller promises a NUL at the end.
        REAL.loaded
            .note(unsafe { CStr::from_ptr(file) }.to_bytes(), What::DeepBind);
    }
    Decision {
        address,
        flags: kept as u32 as usize,
    }
}

/// The fallback for a C library without the function: nothing can be loaded.
extern "C" fn nothing() -> *mut c_void {
    core::ptr::null_mut()
}

/// `dlmopen`, for every program under LD_PRELOAD. A library in a separate namespace loads another C library and another
/// driver, and preloaded libraries are not part of the namespace: this can only be reported.
///
/// # Safety
/// As `dlmopen(3)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlmopen(
    namespace: c_long,
    file: *const c_char,
    flags: c_int,
) -> *mut c_void {
    naked_code!(
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "call {noted}", // the pushes have aligned the stack
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp rax";
        noted = sym noted,
    )
}

/// The address to continue at.
unsafe extern "C" fn noted(namespace: c_long, file: *const c_char) -> usize {
    if namespace != libc::LM_ID_BASE && !file.is_null() {
        // SAFETY: checked for null; the caller promises a NUL at the end.
        REAL.loaded
            .note(unsafe { CStr::from_ptr(file) }.to_bytes(), What::Namespace);
    }
    match REAL.dlmopen.address() {
        0 => nothing as *const () as usize,
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::elf;

    #[test]
    fn takes_that_flag_alone() {
        let asked = libc::RTLD_NOW | libc::RTLD_GLOBAL;
        // SAFETY: the names are NUL-terminated or null.
        let (deep, plain, program) = unsafe {
            (
                decide(c"/lib/libone.so".as_ptr(), asked | libc::RTLD_DEEPBIND),
                decide(c"/lib/libtwo.so".as_ptr(), asked),
                decide(core::ptr::null(), asked | libc::RTLD_DEEPBIND),
            )
        };
        assert_eq!(deep.flags, asked as usize);
        assert_eq!(plain.flags, asked as usize);
        assert_eq!(program.flags, (asked | libc::RTLD_DEEPBIND) as usize);
        assert!(deep.address == elf::in_libc(c"dlopen") && plain.address == deep.address);
        let is_kept = |name: &[u8]| REAL.loaded.kept().any(|(text, _)| text == name);
        assert!(is_kept(b"/lib/libone.so") && !is_kept(b"/lib/libtwo.so"));
    }

    #[test]
    fn loads_like_the_real_one() {
        // SAFETY: the name is NUL-terminated; libc is loaded already.
        let handle = unsafe { dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW | libc::RTLD_DEEPBIND) };
        assert!(!handle.is_null());
        // SAFETY: as above.
        let none = unsafe { dlopen(c"libnone-at-all.so".as_ptr(), libc::RTLD_NOW) };
        assert!(none.is_null());
    }
}
