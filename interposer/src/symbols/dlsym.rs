//! Our `dlsym` and `dlvsym`: look-ups of hooked driver functions get the hook, all others go on to the
//! real function by a tail jump, so that the C library still sees the caller's return address and
//! `RTLD_NEXT` means what the caller meant.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::symbols::{elf, table};

/// Address of the C library's `dlsym`; 0 until the first use.
static REAL_DLSYM: AtomicUsize = AtomicUsize::new(0);
/// Address of the C library's `dlvsym`; 0 until the first use.
static REAL_DLVSYM: AtomicUsize = AtomicUsize::new(0);

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// What to do with a look-up, returned in rax and rdx.
#[repr(C)]
struct Decision {
    /// With `answered`: what the caller gets. Else: where to jump.
    address: usize,
    /// 1 if `address` is the answer.
    answered: usize,
}

/// The C library's function, found once.
fn real(slot: &AtomicUsize, name: &CStr) -> usize {
    match slot.load(Ordering::Relaxed) {
        0 => {
            let found = elf::in_libc(name);
            slot.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    }
}

/// The real `dlsym`, called from here: `RTLD_NEXT` means "after libgpumem.so".
pub(crate) fn real_dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
    match real(&REAL_DLSYM, c"dlsym") {
        0 => core::ptr::null_mut(),
        address => {
            // SAFETY: the address is that of the C library's dlsym, whose type this is.
            let function: Dlsym = unsafe { core::mem::transmute(address) };
            // SAFETY: the handle is the caller's own; the name is NUL-terminated.
            unsafe { function(handle, name.as_ptr()) }
        }
    }
}

/// `dlsym`, for every program under LD_PRELOAD.
///
/// # Safety
/// As `dlsym(3)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        "mov rdx, [rsp]", // the caller
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {decide}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rdx, rdx",
        "jnz 2f",
        "jmp rax",
        "2:",
        "ret",
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
    naked_asm!(
        "mov rcx, [rsp]", // the caller
        "push rdi",
        "push rsi",
        "push rdx",
        "call {decide}",
        "mov rcx, rdx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rcx, rcx",
        "jnz 2f",
        "jmp rax",
        "2:",
        "ret",
        decide = sym decide_dlvsym,
    )
}

/// A look-up that finds nothing and leaves an error message, should the C library's function be
/// missing altogether.
unsafe extern "C" fn nothing(_: *mut c_void, _: *const c_char) -> *mut c_void {
    core::ptr::null_mut()
}

fn forward(slot: &AtomicUsize, name: &CStr) -> Decision {
    let address = match real(slot, name) {
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
    // SAFETY: the caller passes a NUL-terminated name, or null, which is checked.
    let answer = unsafe { decide(handle, name, caller, |wanted| real_dlsym(handle, wanted)) };
    answer.unwrap_or_else(|| forward(&REAL_DLSYM, c"dlsym"))
}

unsafe extern "C" fn decide_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    caller: usize,
) -> Decision {
    let look_up = |wanted: &CStr| match real(&REAL_DLVSYM, c"dlvsym") {
        0 => core::ptr::null_mut(),
        address => {
            // SAFETY: the address is that of the C library's dlvsym, whose type this is.
            let function: Dlvsym = unsafe { core::mem::transmute(address) };
            // SAFETY: handle and version are the caller's own.
            unsafe { function(handle, wanted.as_ptr(), version) }
        }
    };
    // SAFETY: as in `decide_dlsym`.
    let answer = unsafe { decide(handle, name, caller, look_up) };
    answer.unwrap_or_else(|| forward(&REAL_DLVSYM, c"dlvsym"))
}

/// The answer to a look-up, or None where the real function shall give it.
///
/// # Safety
/// `name` is null or NUL-terminated.
unsafe fn decide(
    handle: *mut c_void,
    name: *const c_char,
    caller: usize,
    look_up: impl Fn(&CStr) -> *mut c_void,
) -> Option<Decision> {
    if name.is_null() || handle == libc::RTLD_NEXT {
        return None;
    }
    // SAFETY: checked for null; the caller promises a NUL at the end.
    let name = unsafe { CStr::from_ptr(name) };
    if !name.to_bytes().starts_with(b"cu") {
        return None;
    }
    let hook = table::by_name(name.to_bytes())?;
    let found = look_up(name) as usize;
    if found == 0 {
        return None; // the real one says so, and why
    }
    if found == hook.address() {
        // The search met our own export. Without a library behind it there is nothing to be found:
        // CUDA must not seem to be there because we are.
        if !real_dlsym(libc::RTLD_NEXT, name).is_null() || hook.has_real() {
            return Some(Decision {
                address: found,
                answered: 1,
            });
        }
        return Some(Decision {
            address: 0,
            answered: 1,
        });
    }
    if !hook.is_driver() {
        return None; // runtime functions reach the driver, where they are seen
    }
    if !hook.adopt(found) {
        return None; // a second driver in one process: the first one is hooked
    }
    table::armed(hook, table::Way::Dlsym, caller);
    Some(Decision {
        address: hook.address(),
        answered: 1,
    })
}
