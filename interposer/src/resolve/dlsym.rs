//! Our `dlsym` and `dlvsym`: look-ups of hooked driver functions return the hook. All others continue
//! at the real function by a tail jump, so that the C library still has the caller's return address
//! and `RTLD_NEXT` has its usual meaning.

use core::ffi::{CStr, c_char, c_void};

use gpumem_sys::c_library::Function;

use super::libraries::{self, Home};
use super::real::{self, REAL};
use super::{elf, order, proc_address};
use crate::account::BoundBy;
use crate::caller::naked_code;
use crate::hook::{self, Hook};
use crate::nvtx;
use crate::thread;

type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// How to handle a look-up, returned in rax and rdx.
#[repr(C)]
struct Decision {
    /// With `answered`: the result for the caller. Otherwise: the jump target.
    address: usize,
    /// 1 if `address` is the result.
    answered: usize,
}

/// `dlsym`, for every program under LD_PRELOAD.
///
/// # Safety
/// As `dlsym(3)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_code!(
        "mov rdx, [rsp]", // the caller
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {decide}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test rdx, rdx",
        "jnz 2f",
        "jmp rax",
        "2:",
        "ret";
        decide = sym decide_dlsym,
    )
}

/// `dlvsym`, for every program under LD_PRELOAD.
///
/// # Safety
/// As `dlvsym(3)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    naked_code!(
        "mov rcx, [rsp]", // the caller
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "call {decide}",
        "mov rcx, rdx",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test rcx, rcx",
        "jnz 2f",
        "jmp rax",
        "2:",
        "ret";
        decide = sym decide_dlvsym,
    )
}

/// A look-up that finds nothing and leaves an error message, for the case that the C library does not
/// have the function.
unsafe extern "C" fn nothing(_: *mut c_void, _: *const c_char) -> *mut c_void {
    core::ptr::null_mut()
}

fn forward(real: &Function) -> Decision {
    let address = match real.address() {
        0 => nothing as *const () as usize,
        address => address,
    };
    Decision {
        address,
        answered: 0,
    }
}

unsafe extern "C" fn decide_dlsym(
    handle: *mut c_void,
    name: *const c_char,
    caller: usize,
) -> Decision {
    let look_up = |wanted: &CStr| match handle.is_null() || handle == libc::RTLD_NEXT {
        true => real::dlsym(handle, wanted),
        false => real::dlsym_in_chain(handle, wanted),
    };
    // SAFETY: the caller passes a NUL-terminated name, or null, which is checked.
    let answer = unsafe { decide(handle, name, caller, look_up) };
    answer.unwrap_or_else(|| forward(&REAL.dlsym))
}

unsafe extern "C" fn decide_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    caller: usize,
) -> Decision {
    let look_up = |wanted: &CStr| match REAL.dlvsym.address() {
        0 => core::ptr::null_mut(),
        address => {
            // SAFETY: the address is that of the C library's dlvsym, whose type this is.
            let function: Dlvsym = unsafe { core::mem::transmute(address) };
            // SAFETY: handle and version are the caller's own.
            unsafe { function(handle, wanted.as_ptr(), version) }
        }
    };
    // SAFETY: as in `decide_dlsym`.
    if handle == libc::RTLD_NEXT && unsafe { looks_for_dlsym(name) } {
        let ours = dlsym as *const () as usize;
        if elf::after(caller, c"dlsym") == ours {
            return answer(ours);
        }
    }
    // SAFETY: as in `decide_dlsym`.
    let answer = unsafe { decide(handle, name, caller, look_up) };
    answer.unwrap_or_else(|| forward(&REAL.dlvsym))
}

/// Whether another tool before this library looks for the next `dlsym`. It does so by the C library's version of that
/// name, which ours does not have.
///
/// # Safety
/// `name` is null or NUL-terminated.
unsafe fn looks_for_dlsym(name: *const c_char) -> bool {
    // SAFETY: checked for null; the caller promises a NUL at the end.
    !name.is_null() && unsafe { CStr::from_ptr(name) } == c"dlsym"
}

/// The result of a look-up, or None if the real function must return it.
///
/// # Safety
/// `name` is null or NUL-terminated.
unsafe fn decide(
    handle: *mut c_void,
    name: *const c_char,
    caller: usize,
    look_up: impl Fn(&CStr) -> *mut c_void,
) -> Option<Decision> {
    if name.is_null() {
        return None;
    }
    // SAFETY: checked for null; the caller promises a NUL at the end.
    let name = unsafe { CStr::from_ptr(name) };
    let is_nvmls = name.to_bytes().starts_with(b"nvmlDeviceGetMemoryInfo");
    // The recorder's own look-ups get the unlimited card.
    if is_nvmls && thread::with(|thread| thread.in_recorder.get()) {
        return None;
    }
    if !is_nvmls && !name.to_bytes().starts_with(b"cu") {
        let is_nvtx = name.to_bytes() == nvtx::ENTRY && handle != libc::RTLD_NEXT;
        return is_nvtx.then(|| answer(nvtx::chain(look_up(name) as usize)));
    }
    let hook = hook::by_name(name.to_bytes())?;
    if handle == libc::RTLD_NEXT {
        return after_caller(hook, caller);
    }
    let others = real::others_dlsym();
    // The other tool itself gets the function after its own.
    if others != 0 && order::place_of(caller) == order::place_of(others) {
        return None;
    }
    let found = look_up(name) as usize;
    if found == 0 {
        return None; // the real one leaves the error message
    }
    if found == hook.address() {
        let in_scope = handle == libc::RTLD_DEFAULT && !order::in_program(caller);
        return Some(stand_in(hook, caller, in_scope));
    }
    // Runtime functions call the driver, where they are recorded. A library before us that defines the
    // function looks up the next one here; if its definition were used as the real function, it would
    // call us endlessly.
    let is_handed_out = hook.is_driver() || hook.home == Home::Nvml;
    if !is_handed_out || order::before_us(found) || !takes(hook, found) {
        return None;
    }
    hook::armed(hook, BoundBy::Dlsym, caller);
    Some(answer(hook.address()))
}

/// Whether the function at `found` is the hook's real function.
fn takes(hook: &'static Hook, found: usize) -> bool {
    hook.adopt(found) || {
        proc_address::resolve_exports();
        hook.adopt(found)
    }
}

fn answer(address: usize) -> Decision {
    Decision {
        address,
        answered: 1,
    }
}

/// `RTLD_NEXT`: the libraries after the caller's own.
fn after_caller(hook: &'static Hook, caller: usize) -> Option<Decision> {
    if order::before_us(caller) {
        // Its search finds our export, unless another library in between defines the name.
        let first = real::dlsym(libc::RTLD_DEFAULT, hook.name) as usize;
        return (first == hook.address()).then(|| stand_in(hook, caller, false));
    }
    // A library that wraps the function itself must get the function after it, not our hook before it.
    if !hook.is_driver() || elf::defined_around(caller, hook.name) != Some(false) {
        return None;
    }
    match behind(hook, true) {
        0 => None,
        found if !takes(hook, found) => None,
        _ => {
            hook::armed(hook, BoundBy::Dlsym, caller);
            Some(answer(hook.address()))
        }
    }
}

/// The function that a search finds after our export: in the global scope or, for callers that also
/// have a local scope (`in_scope`), wherever its library is loaded. 0 if it is not found.
fn behind(hook: &'static Hook, in_scope: bool) -> usize {
    let mut found = real::dlsym(libc::RTLD_NEXT, hook.name) as usize;
    if found == 0 && in_scope {
        found = libraries::find(hook.home, hook.name, hook.address());
        if found != 0 {
            // The first search left an error that the caller must not see.
            // SAFETY: takes nothing; the text it returns is not kept.
            unsafe { libc::dlerror() };
        }
    }
    found
}

/// The result of a search that found our export: the hook, if there is a function behind it. Our
/// exports must not make CUDA seem to be available.
fn stand_in(hook: &'static Hook, caller: usize, in_scope: bool) -> Decision {
    let found = behind(hook, in_scope);
    if found == 0 {
        return answer(0); // the search after us has left the error message
    }
    if hook.adopt(found) && hook.is_driver() {
        hook::armed(hook, BoundBy::Dlsym, caller);
    }
    answer(hook.address())
}
