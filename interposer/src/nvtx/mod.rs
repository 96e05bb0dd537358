//! NVTX: records the named ranges of a program, PyTorch or a library.
//!
//! Each library that uses NVTX has a separate copy of it. At its first call, that copy loads the library
//! in `NVTX_INJECTION64_PATH`, calls `InitializeInjectionNvtx2` in it and passes a table of its function
//! pointers. A preloaded libgpumem.so sets the variable to its own path before the program starts, in every program: when
//! one loads CUDA, other threads may already read the environment, and that NVTX is used may be the first that it does.
//! Children inherit it. In a child without the preload, the entry point refuses, and NVTX has no tool.
//!
//! If the variable is already set, it belongs to another tool, and stays. That tool's entry point is
//! then looked up by `dlsym`, which returns ours. Ours calls the tool's first and replaces the functions
//! that the tool has installed in the table. Each of ours calls the tool's, whose result the program
//! gets.

mod callbacks;
mod module;
mod ranges;
mod state;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::ControlFlow;
use core::ptr::{null, null_mut};
use core::sync::atomic::Ordering;

use gpumem_sys::loaded;

use self::module::{MOST, Module};
use self::state::NVTX;

/// The entry point that every copy of NVTX looks up.
pub(crate) const ENTRY: &[u8] = b"InitializeInjectionNvtx2";

/// The variable that names the library to load.
const VARIABLE: &CStr = c"NVTX_INJECTION64_PATH";

/// `NvtxGetExportTableFunc_t`.
type GetExportTable = unsafe extern "C-unwind" fn(u32) -> *const c_void;

/// `NvtxInitializeInjectionNvtxFunc_t`.
type Initialize = unsafe extern "C-unwind" fn(Option<GetExportTable>) -> c_int;

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct ExportedCallbacks {
    struct_size: usize,
    /// For a module: the addresses of its function pointers, and their number.
    module_table:
        Option<unsafe extern "C-unwind" fn(u32, *mut *const *mut usize, *mut u32) -> c_int>,
}

/// `NVTX_ETID_CALLBACKS`.
const CALLBACKS: u32 = 1;

/// Called when a copy of NVTX has found a tool's entry point at `found`. Returns ours instead, which
/// calls the tool's first.
pub(crate) fn chain(found: usize) -> usize {
    let ours = InitializeInjectionNvtx2 as *const () as usize;
    if found != 0 && found != ours && !NVTX.is_calling.load(Ordering::Acquire) {
        NVTX.tool.store(found, Ordering::Release);
        return ours;
    }
    found
}

/// Called by each copy of NVTX in the process, with a function that returns its table; 1: it must use
/// it.
///
/// # Safety
/// `table` is null or the function of a copy of NVTX.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C-unwind" fn InitializeInjectionNvtx2(table: Option<GetExportTable>) -> c_int {
    let Some(table) = table else { return 0 };
    if !came_with_the_program() {
        return 0;
    }
    // SAFETY: promised by the caller.
    let [core, core2] = unsafe { [places(table, Module::Core), places(table, Module::Core2)] };
    // SAFETY: the places are the function pointers of this copy.
    let before = [core, core2].map(|places| unsafe { contents(&places) });
    let theirs = NVTX.tool.load(Ordering::Acquire);
    if theirs != 0 && !NVTX.is_calling.swap(true, Ordering::AcqRel) {
        // SAFETY: a tool exports it under the name of such a function.
        let initialize = unsafe { core::mem::transmute::<usize, Initialize>(theirs) };
        // SAFETY: the caller's own argument. Should the tool decline, we are alone.
        unsafe { initialize(Some(table)) };
        NVTX.is_calling.store(false, Ordering::Release);
    }
    for (places, before) in [core, core2].iter().zip(&before) {
        for (id, (place, before)) in places.pointers.iter().zip(before).enumerate() {
            let Some(ours) = callbacks::ours(places.module, id) else {
                continue;
            };
            if place.is_null() {
                continue;
            }
            // SAFETY: the place is a function pointer of this copy, which nobody else writes while it
            // is initialised.
            let known = unsafe { place.read() };
            if known == ours {
                continue;
            }
            if known != *before {
                callbacks::set_theirs(places.module, id, known);
            }
            // SAFETY: as above.
            unsafe { place.write(ours) };
        }
    }
    1
}

/// Whether this library was loaded with the program, and not by a copy of NVTX that inherited the variable: a library
/// that is loaded later comes after the C library.
fn came_with_the_program() -> bool {
    let own = InitializeInjectionNvtx2 as *const () as usize;
    let first = loaded::find(|library| {
        if library.holds(own) {
            return ControlFlow::Break(true);
        }
        match library.file_name().starts_with(b"libc.so") {
            true => ControlFlow::Break(false),
            false => ControlFlow::Continue(()),
        }
    });
    first == Some(true)
}

/// The addresses of a module's function pointers.
#[derive(Clone, Copy)]
struct Places {
    module: Module,
    pointers: [*mut usize; MOST],
}

/// # Safety
/// `table` is the function of a copy of NVTX.
unsafe fn places(table: GetExportTable, module: Module) -> Places {
    let mut places = Places {
        module,
        pointers: [null_mut(); MOST],
    };
    // SAFETY: promised by the caller.
    let exported = unsafe { table(CALLBACKS).cast::<ExportedCallbacks>().as_ref() };
    let Some(ask) = exported.and_then(|exported| exported.module_table) else {
        return places;
    };
    let (mut start, mut count) = (null::<*mut usize>(), 0u32);
    // SAFETY: both results are valid for writing.
    let known = unsafe { ask(module as u32, &raw mut start, &raw mut count) };
    if known == 0 || start.is_null() {
        return places;
    }
    for (id, place) in places.pointers.iter_mut().enumerate().take(count as usize) {
        // SAFETY: the table has `count` places.
        *place = unsafe { start.add(id).read() };
    }
    places
}

/// The contents of these addresses; 0 for null addresses.
///
/// # Safety
/// The addresses come from a copy of NVTX.
unsafe fn contents(places: &Places) -> [usize; MOST] {
    places.pointers.map(|place| match place.is_null() {
        true => 0,
        // SAFETY: promised by the caller.
        false => unsafe { place.read() },
    })
}

/// Sets the variable to this library's path, if it is preloaded and the variable is not set. Runs before
/// the program's own code, so that no other code reads or writes the environment yet.
extern "C" fn at_start() {
    // SAFETY: the names are NUL-terminated; the value is read before anything is changed.
    unsafe {
        let preloaded = libc::getenv(c"LD_PRELOAD".as_ptr());
        if preloaded.is_null() || !libc::getenv(VARIABLE.as_ptr()).is_null() {
            return;
        }
        let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        if libc::dladdr(at_start as *const c_void, info.as_mut_ptr()) == 0 {
            return;
        }
        let path = info.assume_init().dli_fname;
        if path.is_null() || !names(CStr::from_ptr(preloaded), CStr::from_ptr(path)) {
            return;
        }
        let mut whole: [c_char; libc::PATH_MAX as usize] = [0; libc::PATH_MAX as usize];
        if !libc::realpath(path, whole.as_mut_ptr()).is_null() {
            libc::setenv(VARIABLE.as_ptr(), whole.as_ptr(), 0);
        }
    }
}

/// Whether `LD_PRELOAD`'s value names the library of that path.
fn names(preloaded: &CStr, path: &CStr) -> bool {
    let path = path.to_bytes();
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let files = preloaded.to_bytes().split(|byte| b" :".contains(byte));
    !name.is_empty() && files.into_iter().any(|file| file.ends_with(name))
}

/// Run by the loader once the libraries that this one needs are ready.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preloaded_library_is_known_by_its_name() {
        let path = c"/opt/lib/libgpumem.so";
        for value in [
            c"libgpumem.so",
            c"/x/y.so:/opt/lib/libgpumem.so",
            c"a.so ./libgpumem.so",
        ] {
            assert!(names(value, path));
        }
        for value in [c"", c"libother.so", c"libgpumem.so.bak"] {
            assert!(!names(value, path));
        }
    }
}
