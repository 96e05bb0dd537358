//! Our `dlopen`: takes `RTLD_DEEPBIND` out of the flags and goes on to the real function by a tail jump.
//!
//! A library loaded with that flag searches its own dependencies before the global scope: its `dlsym`
//! would be the C library's, its `cuMemAlloc_v2` the driver's, and no call of it would be seen. The
//! jump leaves the caller's return address where the C library looks for it, so that the caller's
//! RPATH, RUNPATH, `$ORIGIN` and namespace stay in force. docs/architecture.md says why the flag goes.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use gpumem_capture::Writer;

use crate::account;
use crate::caller::naked_code;
use crate::symbols::elf;

/// Address of the C library's `dlopen`; 0 until the first use.
static REAL: AtomicUsize = AtomicUsize::new(0);

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
    let mut address = REAL.load(Ordering::Relaxed);
    if address == 0 {
        address = elf::in_libc(c"dlopen");
        REAL.store(address, Ordering::Relaxed);
    }
    if address == 0 {
        address = nothing as *const () as usize;
    }
    let mut kept = flags;
    if flags & libc::RTLD_DEEPBIND != 0 && !file.is_null() {
        kept &= !libc::RTLD_DEEPBIND;
        // SAFETY: checked for null; the caller promises a NUL at the end.
        note(unsafe { CStr::from_ptr(file) }.to_bytes());
    }
    Decision {
        address,
        flags: kept as u32 as usize,
    }
}

/// What there is to say of a C library without `dlopen`: nothing can be loaded.
unsafe extern "C" fn nothing(_: *const c_char, _: c_int) -> *mut c_void {
    core::ptr::null_mut()
}

/// A library's name is kept up to this length: its end, which tells more than its beginning.
const LONGEST: usize = 120;

const FREE: u8 = 0;
const BEING_WRITTEN: u8 = 1;
const KEPT: u8 = 2;
const TOLD: u8 = 3;

/// The name of a library whose flag was taken.
struct Name {
    state: AtomicU8,
    text: UnsafeCell<([u8; LONGEST], u8)>,
}

// SAFETY: the text is written by the thread that took the place from FREE to BEING_WRITTEN, and read
// only once it is KEPT, after which nobody writes it.
unsafe impl Sync for Name {}

static NAMES: [Name; 64] = [const {
    Name {
        state: AtomicU8::new(FREE),
        text: UnsafeCell::new(([0; LONGEST], 0)),
    }
}; 64];

impl Name {
    /// The text, once it is complete.
    fn text(&self) -> Option<&[u8]> {
        if self.state.load(Ordering::Acquire) < KEPT {
            return None;
        }
        // SAFETY: complete, so nobody writes it any more.
        let (text, length) = unsafe { &*self.text.get() };
        text.get(..usize::from(*length))
    }
}

/// Keeps a library's name for the account, once.
fn note(path: &[u8]) {
    let name = path
        .get(path.len().saturating_sub(LONGEST)..)
        .unwrap_or(path);
    for place in &NAMES {
        if place.text() == Some(name) {
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
        let (text, length) = unsafe { &mut *place.text.get() };
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
        if let (Ok(_), Some(text)) = (told, place.text()) {
            let name = String::from_utf8_lossy(text);
            account::note(
                writer,
                &format!("RTLD_DEEPBIND was taken from dlopen of {name}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(kept.contains(&&b"/lib/libone.so"[..]) && !kept.contains(&&b"/lib/libtwo.so"[..]));
    }

    #[test]
    fn a_name_is_kept_once_and_by_its_end() {
        let long = [b"/x".repeat(100), b"/libfar.so".to_vec()].concat();
        note(&long);
        note(&long);
        let kept: Vec<_> = NAMES
            .iter()
            .filter_map(Name::text)
            .filter(|text| text.ends_with(b"/libfar.so"))
            .collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].len(), LONGEST);
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
