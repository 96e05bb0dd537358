//! The C API, declared in `include/gpumem.h`.

use core::ffi::{CStr, c_char, c_int, c_void};

use gpumem_capture::{Coordinates, DeviceOrdinal, Level, Role};

use crate::backward::phases;
use crate::holders::Refusal;
use crate::{card, coords, holders, limit, options, process, scopes, session, tensors, thread};
pub use scopes::GpumemScopeFigures;

/// Version of the C API: raised by one with each change that a caller can notice.
const API_VERSION: c_int = 8;

/// Counters of one device and level, in bytes and calls.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GpumemCounters {
    /// Bytes live now.
    pub live_bytes: u64,
    /// The highest live bytes.
    pub peak_bytes: u64,
    /// Allocations so far.
    pub allocations: u64,
    /// Releases so far.
    pub frees: u64,
}

/// The version of the C API that this library has.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_api_version() -> c_int {
    API_VERSION
}

/// 1 while events of this process are recorded, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_recording() -> c_int {
    c_int::from(session::session().is_some())
}

/// Reads the counters of `device` at `level` (0 tensor, 1 driver, 2 host, 3 physical) into `out`. 0 on success, 1 if
/// nothing is recorded in this process, 2 if an argument is invalid.
///
/// # Safety
/// `out` is null or valid for writing one [`GpumemCounters`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_counters(
    device: c_int,
    level: c_int,
    out: *mut GpumemCounters,
) -> c_int {
    let (Ok(device), Ok(level)) = (u8::try_from(device), u8::try_from(level)) else {
        return 2;
    };
    if out.is_null() || usize::from(level) >= Level::COUNT {
        return 2;
    }
    let Some(session) = session::session() else {
        return 1;
    };
    let values = session.writer.counters(DeviceOrdinal(device), Level(level));
    let counters = GpumemCounters {
        live_bytes: values.live,
        peak_bytes: values.peak,
        allocations: values.allocations,
        frees: values.frees,
    };
    // SAFETY: checked for null; the caller promises that it is valid for writing.
    unsafe { out.write(counters) };
    0
}

/// Reports that a step of the program has ended. From then on only the program reports steps, and PyTorch's calls
/// are not used to detect them. 0 on success, 1 if nothing is recorded in this process.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_step() -> c_int {
    let recorded = thread::in_hook(|thread| {
        phases::step_said(thread);
        session::session().is_some()
    });
    c_int::from(recorded != Some(true))
}

/// Begins a scope of this name and returns its number; 0 if that is not possible: this process records nothing and will
/// not, or there are too many scopes. A scope may begin before the capture is open. It may end on any thread and in any
/// order.
///
/// # Safety
/// `name` is null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_scope_begin(name: *const c_char) -> u64 {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    thread::in_hook(|thread| scopes::begin(thread, name)).unwrap_or(0)
}

/// Reads a scope's figures of `device` at `level` into `out`: until now, or until it ended. 0 on success, 1 if nothing
/// is recorded in this process, 2 if an argument is invalid.
///
/// # Safety
/// `out` is null or valid for writing one [`GpumemScopeFigures`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_scope_read(
    scope: u64,
    device: c_int,
    level: c_int,
    out: *mut GpumemScopeFigures,
) -> c_int {
    let (Ok(device), Ok(level)) = (u8::try_from(device), u8::try_from(level)) else {
        return 2;
    };
    if out.is_null() || usize::from(level) >= Level::COUNT {
        return 2;
    }
    match thread::in_hook(|_| scopes::read(scope, DeviceOrdinal(device), Level(level))) {
        None => 1,
        Some(None) => 2,
        Some(Some(figures)) => {
            // SAFETY: checked for null; the caller promises that it is valid for writing.
            unsafe { out.write(figures) };
            0
        }
    }
}

/// Restarts a scope, whether it is running or has ended. 0 on success, 1 if nothing is recorded in this process, 2 if
/// there is no such scope.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_scope_reset(scope: u64) -> c_int {
    answer(thread::in_hook(|thread| scopes::reset(thread, scope)))
}

/// Ends a scope: its figures no longer change, and can be read. No effect if it has ended. Returns as
/// [`gpumem_scope_reset`].
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_scope_end(scope: u64) -> c_int {
    answer(thread::in_hook(|thread| scopes::end(thread, scope)))
}

/// Ends a scope and frees its slot: its number is invalid from now on. Returns as [`gpumem_scope_reset`].
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_scope_forget(scope: u64) -> c_int {
    answer(thread::in_hook(|thread| scopes::forget(thread, scope)))
}

/// Records a mark with this name. 0 on success, 1 if nothing is recorded in this process.
///
/// # Safety
/// `name` is null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_mark(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    let marked = thread::in_hook(|thread| scopes::mark(thread, name));
    c_int::from(marked != Some(true))
}

/// The return value of calls that need a scope.
fn answer(found: Option<bool>) -> c_int {
    match found {
        Some(true) => 0,
        None => 1,
        Some(false) => 2,
    }
}

/// The bytes of a string of the caller; empty for null.
///
/// # Safety
/// `name` is null or a string that ends with a zero, which stays as it is for `'a`.
unsafe fn text<'a>(name: *const c_char) -> &'a [u8] {
    if name.is_null() {
        return b"";
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

/// Makes the card of `device` (-1: of every device) appear to have `bytes` in total, from now on; 0 removes the limit.
/// 0 on success, 1 if nothing is recorded in this process nor will be, 2 if there is no such device.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_limit(device: c_int, bytes: u64) -> c_int {
    let device = match device {
        -1 => None,
        _ => match u8::try_from(device) {
            Ok(device) => Some(device),
            Err(_) => return 2,
        },
    };
    if process::is_aside() {
        return 1;
    }
    let set = || {
        let is_set = limit::set(device, bytes);
        if let Some(session) = session::session() {
            limit::tell(session.writer);
        }
        is_set
    };
    match thread::guarded(|_| set()) {
        Some(true) => 0,
        Some(false) => 2,
        None => 1,
    }
}

/// Records the position of this rank in each dimension of the job's parallelism: `dp=1,tp=0,pp=3`. It may be called
/// before anything is recorded, and again: the newest coordinates count. 0 on success, 1 if nothing is recorded in this
/// process nor will be, 2 if the text is invalid.
///
/// # Safety
/// `coordinates` is null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_coords(coordinates: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let given = core::str::from_utf8(unsafe { text(coordinates) });
    let Some(given) = given.ok().and_then(Coordinates::parse) else {
        return 2;
    };
    if process::is_aside() {
        return 1;
    }
    let kept = thread::guarded(|_| {
        coords::keep(given);
        if let Some(session) = session::session() {
            coords::write_pending(session.writer);
        }
    });
    c_int::from(kept.is_none())
}

/// Reads the card of `device` (-1: of every device that this process has used) on the calling thread: NVML's figures
/// are recorded, and the memory that contexts and modules took since the last reading is charged. It may take
/// milliseconds. 0 on success, 1 if nothing is recorded in this process, 2 if there is no such device, 3 if NVML is
/// missing or does not have the device, 4 if other threads changed memory meanwhile, so that nothing could be charged.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_read_card(device: c_int) -> c_int {
    let device = match (device, u8::try_from(device)) {
        (-1, _) => None,
        (_, Ok(device)) if usize::from(device) < card::MOST => Some(DeviceOrdinal(device)),
        _ => return 2,
    };
    let Some(session) = session::session() else {
        return 1;
    };
    let readings = session.readings;
    match thread::in_hook(|thread| readings.read_for_program(session, thread, device)) {
        Some(Some(true)) => 0,
        Some(None) => 3,
        Some(Some(false)) => 4,
        None => 1,
    }
}

/// Records the program's name for a PyTorch module: `name` is its qualified name. It may be called again, and the
/// newest name counts. 0 on success, 1 if nothing is recorded in this process, 2 if no stack has contained the module
/// yet.
///
/// # Safety
/// `module` is null or the address of a live Python object; `name` is null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_name_module(module: *const c_void, name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    let Some(session) = session::session() else {
        return 1;
    };
    // SAFETY: the caller's promise.
    let named = thread::in_hook(|_| unsafe {
        let address = module.expose_provenance();
        session.interner.name_module(session.writer, address, name)
    });
    answer(named)
}

/// Writes the addresses of PyTorch modules that no other module called to `out`, which has room for `room`. Returns how
/// many there are, at most 64. The objects may no longer exist.
///
/// # Safety
/// `out` is null or valid for writing `room` addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_module_roots(out: *mut usize, room: usize) -> usize {
    let room = if out.is_null() { 0 } else { room };
    let out = match room {
        0 => &mut [][..],
        // SAFETY: the caller's promise; any bytes are an address.
        _ => unsafe { core::slice::from_raw_parts_mut(out, room) },
    };
    session::session().map_or(0, |session| session.interner.module_roots(out))
}

/// The number of PyTorch modules in the recorded stacks so far.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_module_count() -> usize {
    session::session().map_or(0, |session| session.interner.module_count())
}

/// Records the program's use of tensors: the storages at these addresses. Addresses that are not live blocks are
/// skipped, and a role that was recorded for a block before is not recorded again. `role` is 1 for parameters, 2 for
/// gradients, 3 for state of optimizers, 4 for buffers. Returns how many were new.
///
/// # Safety
/// `addresses` is null or valid for reading `count` addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_tell_tensors(
    addresses: *const u64,
    count: usize,
    role: c_int,
) -> usize {
    let role = u64::try_from(role).map(Role);
    let Some(role) = role.ok().filter(|role| (1..=4).contains(&role.0)) else {
        return 0;
    };
    let Some(session) = session::session().filter(|_| !addresses.is_null()) else {
        return 0;
    };
    // SAFETY: the caller's promise.
    let addresses = unsafe { core::slice::from_raw_parts(addresses, count) };
    let told = thread::in_hook(|thread| tensors::roles::tell(session, thread, addresses, role));
    told.unwrap_or_default()
}

/// Finds the Python objects that keep the largest blocks of tensors on `device`, in at most a second, and copies them as
/// text, with a NUL, into `buffer` of `size` bytes as far as it fits: the lines of `holders.` in capture/SPEC.md. Each call
/// searches again. Returns the length of the whole text in bytes, 0 if nothing is recorded in this process, -1 if there is
/// no such device, -2 if this thread must not take the interpreter's lock (which it may have), -3 without an interpreter
/// that can be read.
///
/// # Safety
/// `buffer` is null or valid for writing `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpumem_holders(
    device: c_int,
    buffer: *mut c_char,
    size: usize,
) -> isize {
    let Ok(device) = u8::try_from(device) else {
        return -1;
    };
    let Some(session) = session::session() else {
        return 0;
    };
    match holders::current(session, DeviceOrdinal(device)) {
        // SAFETY: the caller's promise.
        Ok(text) => unsafe { copy_text(text.as_bytes(), buffer, size) }.cast_signed(),
        Err(Refusal::Lock) => -2,
        Err(Refusal::Interpreter) => -3,
    }
}

/// Copies the path of this process's capture, with a NUL, into `buffer` of `size` bytes as far as it
/// fits. Returns the length of the whole path in bytes, 0 if nothing is recorded.
///
/// # Safety
/// `buffer` is null or valid for writing `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_report_path(buffer: *mut c_char, size: usize) -> usize {
    let Some(session) = session::session() else {
        return 0;
    };
    let Some(path) = thread::guarded(|_| session.storage.path(session.writer)).flatten() else {
        return 0;
    };
    let path = path.as_os_str().as_encoded_bytes();
    // SAFETY: the caller's promise.
    unsafe { copy_text(path, buffer, size) }
}

/// Copies the description of the environment options, with a NUL, into `buffer` of `size` bytes as far
/// as it fits. Returns the length of the whole text in bytes.
///
/// # Safety
/// `buffer` is null or valid for writing `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_help_env(buffer: *mut c_char, size: usize) -> usize {
    let text = thread::guarded(|_| options::help()).unwrap_or_default();
    // SAFETY: the caller's promise.
    unsafe { copy_text(text.as_bytes(), buffer, size) }
}

/// # Safety
/// `buffer` is null or valid for writing `size` bytes.
unsafe fn copy_text(text: &[u8], buffer: *mut c_char, size: usize) -> usize {
    if !buffer.is_null() && size > 0 {
        let length = text.len().min(size - 1);
        // SAFETY: `length` bytes and a NUL fit in `size`; the text is another object.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, length);
            buffer.add(length).write(0);
        }
    }
    text.len()
}
