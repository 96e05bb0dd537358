//! Access to the books from outside: C functions at any time, a JSON file at exit.

use crate::ffi::Text;
use crate::model::state::{machine, state};
use libc::{c_char, c_int};

/// Writes the books as JSON into `buffer` (of `size` bytes, terminated, truncated if too long).
/// Returns the length of the whole text, or 0 before `cuInit`.
///
/// # Safety
/// `buffer` is null or valid for writing `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_sim_books_json(buffer: *mut c_char, size: usize) -> c_int {
    let Ok(state) = state() else {
        return 0;
    };
    let text = state.books.json();
    drop(state);
    if !buffer.is_null() && size > 0 {
        let length = text.len().min(size - 1);
        // SAFETY: the caller guarantees `size` bytes, and length + 1 <= size.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, length);
            buffer.add(length).write(0);
        }
    }
    text.len() as c_int
}

/// Reads one figure of a device by its ordinal in this process: `driver`, `device`, `managed`,
/// `async`, `vmm`, `array`, `graph`, `host`, `registered`, `pinned`, `physical`, `resident`, `context`,
/// `module`, `lingering`, `total` or `destroyed_pools` (without a peak). Returns 0, or 1 if there is no such
/// device or figure (or no driver yet).
///
/// # Safety
/// `kind` is a C string; `current` and `peak` are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_sim_books(
    device: c_int,
    kind: Text,
    current: *mut u64,
    peak: *mut u64,
) -> c_int {
    let Ok(state) = state() else { return 1 };
    let Ok(ordinal) = state.device(device) else {
        return 1;
    };
    let found = match name(kind) {
        Some("destroyed_pools") => Some((state.pools.destroyed_bytes(ordinal), 0)),
        Some(name) => state.books.device(ordinal).by_name(name),
        None => None,
    };
    // SAFETY: the caller's guarantees apply.
    unsafe { figure(found, current, peak) }
}

/// The same by UUID (`GPU-…`, `MIG-…`), which the simulated NVML uses.
///
/// # Safety
/// As for [`gpumem_sim_books`]; `uuid` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_sim_books_by_uuid(
    uuid: Text,
    kind: Text,
    current: *mut u64,
    peak: *mut u64,
) -> c_int {
    let Ok(state) = state() else { return 1 };
    let uuid = uuid.get().ok().and_then(|uuid| uuid.to_str().ok());
    let Some(books) = uuid.and_then(|uuid| state.books.by_uuid(uuid)) else {
        return 1;
    };
    let found = name(kind).and_then(|name| books.by_name(name));
    // SAFETY: the caller's guarantees apply.
    unsafe { figure(found, current, peak) }
}

fn name(kind: Text) -> Option<&'static str> {
    kind.get().ok().and_then(|kind| kind.to_str().ok())
}

/// # Safety
/// `current` and `peak` are null or valid for writing.
unsafe fn figure(found: Option<(u64, u64)>, current: *mut u64, peak: *mut u64) -> c_int {
    let Some((now, most)) = found else {
        return 1;
    };
    for (place, value) in [(current, now), (peak, most)] {
        if !place.is_null() {
            // SAFETY: the caller guarantees that a non-null pointer is valid.
            unsafe { place.write_unaligned(value) };
        }
    }
    0
}

/// Runs when the process ends normally (return from main, `exit`), after the exit handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = write_at_exit;

extern "C" fn write_at_exit() {
    let Some(path) = &machine().books else { return };
    let Ok(state) = state() else { return };
    let text = state.books.json();
    drop(state);
    let path = path.replace("%p", &std::process::id().to_string());
    if let Err(error) = write_whole(&path, &text) {
        eprintln!("gpumem simulator: cannot write the books to {path}: {error}");
    }
}

/// Writes a temporary file and renames it, so that readers never see a partial file.
fn write_whole(path: &str, text: &str) -> std::io::Result<()> {
    let beside = format!("{path}.{}~", std::process::id());
    std::fs::write(&beside, text)?;
    std::fs::rename(beside, path)
}
