//! The driver's books, if the driver is in this process.

use gpumem_sim_machine::DeviceSpec;
use std::ffi::{CString, c_char, c_int};

type ByUuid = unsafe extern "C" fn(*const c_char, *const c_char, *mut u64, *mut u64) -> c_int;

/// Physical bytes that this process uses on a device: 0 without the driver, before `cuInit`, and
/// on devices that `CUDA_VISIBLE_DEVICES` hides.
pub fn used_bytes(device: &DeviceSpec) -> u64 {
    let Ok(uuid) = CString::new(device.uuid_text()) else {
        return 0;
    };
    with_books(|books| {
        let mut current = 0;
        // SAFETY: two terminated strings and a place of ours; the peak is not asked for.
        let code = unsafe {
            books(
                uuid.as_ptr(),
                c"physical".as_ptr(),
                &mut current,
                std::ptr::null_mut(),
            )
        };
        if code == 0 { current } else { 0 }
    })
    .unwrap_or(0)
}

/// Finds the books' function without loading the driver, which would be news to the program.
fn with_books<T>(ask: impl FnOnce(ByUuid) -> T) -> Option<T> {
    // SAFETY: a terminated name; RTLD_NOLOAD only looks.
    let driver =
        unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if driver.is_null() {
        return None;
    }
    // SAFETY: a live handle and a terminated name.
    let found = unsafe { libc::dlsym(driver, c"gpumem_sim_books_by_uuid".as_ptr()) };
    let answer = (!found.is_null()).then(|| {
        // SAFETY: the simulated driver exports the name with this signature; a real driver does
        // not export it at all.
        ask(unsafe { std::mem::transmute::<*mut libc::c_void, ByUuid>(found) })
    });
    // SAFETY: the handle is ours and used no more.
    unsafe { libc::dlclose(driver) };
    answer
}
