//! The processes that use a device's memory: from the table that all processes share or, if they do
//! not share their cards, from the books of the driver in this process.

use crate::library::machine;
use gpumem_sim_card::{Cards, Holder};
use gpumem_sim_machine::DeviceSpec;
use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use std::sync::OnceLock;

type ByUuid = unsafe extern "C" fn(*const c_char, *const c_char, *mut u64, *mut u64) -> c_int;

/// A process that has memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Its id, as the process sees it.
    pub pid: u32,
    /// Its physical bytes.
    pub bytes: u64,
    /// The MIG instance that they are in.
    pub instance: Option<u32>,
}

/// Every process that has memory of a device, or of any MIG instance of it.
pub fn users(device: &DeviceSpec) -> Vec<User> {
    let page = machine().page_bytes;
    let instances = (0..device.instances).filter_map(|number| device.instance(number, page));
    let parts = std::iter::once(device.clone()).chain(instances);
    parts
        .flat_map(|part| {
            let instance = part.instance;
            holders(&part)
                .into_iter()
                .map(move |Holder { pid, bytes }| User {
                    pid,
                    bytes,
                    instance,
                })
        })
        .collect()
}

fn holders(device: &DeviceSpec) -> Vec<Holder> {
    if let Some(cards) = shared_cards() {
        return cards.holders(device.unit());
    }
    let own = Holder {
        pid: std::process::id(),
        bytes: used_bytes(device),
    };
    if own.bytes > 0 { vec![own] } else { Vec::new() }
}

/// The shared table. If it cannot be opened, the driver reports the error and runs without it, and
/// so does this library.
fn shared_cards() -> Option<&'static Cards> {
    static CARDS: OnceLock<Option<Cards>> = OnceLock::new();
    let open = || Cards::open(Path::new(machine().card.as_deref()?)).ok();
    CARDS.get_or_init(open).as_ref()
}

/// Physical bytes that this process uses on a device: 0 without the driver, before `cuInit`, and on
/// devices that `CUDA_VISIBLE_DEVICES` hides.
fn used_bytes(device: &DeviceSpec) -> u64 {
    let Ok(uuid) = CString::new(device.uuid_text()) else {
        return 0;
    };
    with_books(|books| {
        let mut current = 0;
        // SAFETY: two terminated strings and a local place; the peak is not requested.
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

/// Finds the books' function without loading the driver: that would change the program.
fn with_books<T>(ask: impl FnOnce(ByUuid) -> T) -> Option<T> {
    // SAFETY: a terminated name; RTLD_NOLOAD loads nothing.
    let driver =
        unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if driver.is_null() {
        return None;
    }
    // SAFETY: a live handle and a terminated name.
    let found = unsafe { libc::dlsym(driver, c"gpumem_sim_books_by_uuid".as_ptr()) };
    let answer = (!found.is_null()).then(|| {
        // SAFETY: the simulated driver exports the name with this signature; a real driver does not
        // export it.
        ask(unsafe { std::mem::transmute::<*mut libc::c_void, ByUuid>(found) })
    });
    // SAFETY: the handle comes from the call above and is not used afterwards.
    unsafe { libc::dlclose(driver) };
    answer
}
