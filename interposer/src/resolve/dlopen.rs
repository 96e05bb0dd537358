//! Our `dlopen`: takes `RTLD_DEEPBIND` out of the flags and goes on to the real function by a tail jump. Our `dlmopen`
//! only notes what it loads.
//!
//! A library loaded with that flag searches its own dependencies before the global scope: its `dlsym`
//! would be the C library's, its `cuMemAlloc_v2` the driver's, and no call of it would be seen. The
//! jump leaves the caller's return address where the C library looks for it, so that the caller's
//! RPATH, RUNPATH, `$ORIGIN` and namespace stay in force. docs/loading.md says why the flag goes.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use gpumem_capture::Writer;

use super::real;
use crate::account;
use crate::caller::naked_code;

/// Addresses of the C library's functions; 0 until the first use.
static REAL: AtomicUsize = AtomicUsize::new(0);
static REAL_DLMOPEN: AtomicUsize = AtomicUsize::new(0);

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

/// Where to go and with which flags, returned in rax and rdx.
#[repr(C)]
struct Decision {
    address: usize,
    flags: usize,
}

unsafe extern "C" fn decide(file: *const c_char, flags: c_int) -> Decision {
    let mut address = real::function(&REAL, c"dlopen");
    if address == 0 {
        address = nothing as *const () as usize;
    }
    let mut kept = flags;
    if flags & libc::RTLD_DEEPBIND != 0 && !file.is_null() {
        kept &= !libc::RTLD_DEEPBIND;
        // SAFETY: checked for null; the caller promises a NUL at the end.
        note(unsafe { CStr::from_ptr(file) }.to_bytes(), What::DeepBind);
    }
    Decision {
        address,
        flags: kept as u32 as usize,
    }
}

/// What there is to say of a C library without the function: nothing can be loaded.
extern "C" fn nothing() -> *mut c_void {
    core::ptr::null_mut()
}

/// `dlmopen`, for every program under LD_PRELOAD. A library in a namespace of its own brings a C library and a driver of
/// its own along, and nothing preloaded takes part in it: all that can be done is to say so.
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

/// Where to go on.
unsafe extern "C" fn noted(namespace: c_long, file: *const c_char) -> usize {
    if namespace != libc::LM_ID_BASE && !file.is_null() {
        // SAFETY: checked for null; the caller promises a NUL at the end.
        note(unsafe { CStr::from_ptr(file) }.to_bytes(), What::Namespace);
    }
    match real::function(&REAL_DLMOPEN, c"dlmopen") {
        0 => nothing as *const () as usize,
        address => address,
    }
}

/// What is noted of a library.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    DeepBind,
    Namespace,
}

/// A library's name is kept up to this length: its end, which tells more than its beginning.
const LONGEST: usize = 120;

const FREE: u8 = 0;
const BEING_WRITTEN: u8 = 1;
const KEPT: u8 = 2;
const TOLD: u8 = 3;

/// The name of a library of which something is noted.
struct Name {
    state: AtomicU8,
    text: UnsafeCell<([u8; LONGEST], u8, What)>,
}

// SAFETY: the text is written by the thread that took the place from FREE to BEING_WRITTEN, and read
// only once it is KEPT, after which nobody writes it.
unsafe impl Sync for Name {}

static NAMES: [Name; 64] = [const {
    Name {
        state: AtomicU8::new(FREE),
        text: UnsafeCell::new(([0; LONGEST], 0, What::DeepBind)),
    }
}; 64];

impl Name {
    /// The text, once it is complete.
    fn text(&self) -> Option<(&[u8], What)> {
        if self.state.load(Ordering::Acquire) < KEPT {
            return None;
        }
        // SAFETY: complete, so nobody writes it any more.
        let (text, length, what) = unsafe { &*self.text.get() };
        Some((text.get(..usize::from(*length))?, *what))
    }
}

/// Keeps a library's name for the account, once.
fn note(path: &[u8], what: What) {
    let name = path
        .get(path.len().saturating_sub(LONGEST)..)
        .unwrap_or(path);
    for place in &NAMES {
        if place.text() == Some((name, what)) {
            return;
        }
        let took =
            place
                .state
                .compare_exchange(FREE, BEING_WRITTEN, Ordering::Acquire, Ordering::Relaxed);
        if took.is_err() {
            continue;
        }
        // SAFETY: the place is this thread's until it is marked as kept.
        let (text, length, noted) = unsafe { &mut *place.text.get() };
        *noted = what;
        if let Some(room) = text.get_mut(..name.len()) {
            room.copy_from_slice(name);
            *length = name.len() as u8;
        }
        place.state.store(KEPT, Ordering::Release);
        account::something_new();
        return;
    }
}

/// Writes what has not been written of this: one plain note for each library.
pub(crate) fn write(writer: &'static Writer) {
    for place in &NAMES {
        let told = place
            .state
            .compare_exchange(KEPT, TOLD, Ordering::AcqRel, Ordering::Relaxed);
        if let (Ok(_), Some((text, what))) = (told, place.text()) {
            let name = String::from_utf8_lossy(text);
            let line = match what {
                What::DeepBind => format!("RTLD_DEEPBIND was taken from dlopen of {name}"),
                What::Namespace => format!(
                    "inexact: {name} was loaded into another namespace (dlmopen), whose calls are not recorded"
                ),
            };
            account::note(writer, &line);
        }
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
        let kept: Vec<_> = NAMES.iter().filter_map(Name::text).collect();
        let is_kept = |name: &[u8]| kept.iter().any(|(text, _)| *text == name);
        assert!(is_kept(b"/lib/libone.so") && !is_kept(b"/lib/libtwo.so"));
    }

    #[test]
    fn a_name_is_kept_once_and_by_its_end() {
        let long = [b"/x".repeat(100), b"/libfar.so".to_vec()].concat();
        for what in [What::DeepBind, What::DeepBind, What::Namespace] {
            note(&long, what);
        }
        let kept: Vec<_> = NAMES
            .iter()
            .filter_map(Name::text)
            .filter(|(text, _)| text.ends_with(b"/libfar.so"))
            .collect();
        let same = |(text, what): &(&[u8], What)| (text.len(), *what as u8);
        let expected = [
            (LONGEST, What::DeepBind as u8),
            (LONGEST, What::Namespace as u8),
        ];
        assert_eq!(kept.iter().map(same).collect::<Vec<_>>(), expected);
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
