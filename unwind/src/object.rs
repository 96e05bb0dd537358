//! `_dl_find_object`: the loader's own look-up of an address, without a lock (glibc 2.35 and newer).

use core::ffi::{c_int, c_void};

use crate::functions::FUNCTIONS;
use crate::modules::span::Span;

/// `struct dl_find_object` of <dlfcn.h> on 64-bit targets.
#[repr(C)]
struct Found {
    flags: u64,
    map_start: *const c_void,
    map_end: *const c_void,
    link_map: *const LinkMap,
    eh_frame: *const c_void,
    reserved: [u64; 7],
}

/// The public head of `struct link_map` of <link.h>.
#[repr(C)]
struct LinkMap {
    addr: u64,
    name: *const core::ffi::c_char,
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut Found) -> c_int;

fn function() -> Option<FindObject> {
    let address = FUNCTIONS.find_object.address()?;
    // SAFETY: the address is that of the C library's function, whose type this is.
    Some(unsafe { core::mem::transmute::<usize, FindObject>(address) })
}

/// Whether [`find`] is supported.
pub(crate) fn is_available() -> bool {
    function().is_some()
}

/// The module that holds `address`.
pub(crate) fn find(address: u64) -> Option<Span> {
    let mut found = core::mem::MaybeUninit::<Found>::uninit();
    // SAFETY: the function reads no memory at `address`, and fills `found` where it returns 0.
    let found = unsafe {
        match function()?(address as *const c_void, found.as_mut_ptr()) {
            0 => found.assume_init(),
            _ => return None,
        }
    };
    // SAFETY: the loader keeps the link map as long as the module is loaded, and the caller looks up
    // addresses that it is executing.
    let bias = unsafe { (*found.link_map).addr };
    Some(Span {
        start: found.map_start as u64,
        end: found.map_end as u64,
        bias,
    })
}
