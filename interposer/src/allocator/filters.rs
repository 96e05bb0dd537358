//! Wraps the filters of pools to observe their results ([`super::routes`]).

use core::ffi::c_void;

use gpumem_capture::DeviceOrdinal;
use gpumem_torch_abi::Wrapped;

use super::placements::Pool;
use crate::session;

/// The original filter and its pool.
#[derive(Clone)]
struct Filter {
    device: DeviceOrdinal,
    pool: Pool,
}

impl Drop for Filter {
    /// The allocator drops it, with its lock held, once the pool's use has ended. If it was the last one, no filter is
    /// called any more.
    fn drop(&mut self) {
        if let Some(session) = session::session() {
            session.allocator.routes.say(self.device, (0, 0));
        }
    }
}

/// Wraps the filter at an address, a `std::function<bool(cudaStream_t)>`.
pub(super) fn hear(filter: u64, device: DeviceOrdinal, pool: Pool) {
    let known = Filter { device, pool };
    // SAFETY: PyTorch passes the filter by its address, and moves it from there to where it is kept.
    unsafe { Wrapped::put(filter, known, asked as *const c_void) };
}

/// Called by the allocator for an allocation on a stream, with its lock of the device held.
unsafe extern "C-unwind" fn asked(data: *const c_void, stream: *const c_void) -> bool {
    // SAFETY: it is called as the filter is whose place ours took.
    let (filter, takes) = unsafe {
        let wrapped = Wrapped::<Filter>::of(data);
        (&wrapped.known, wrapped.call(stream))
    };
    if let Some(session) = session::session() {
        let pool = if takes { filter.pool } else { (0, 0) };
        session.allocator.routes.say(filter.device, pool);
    }
    takes
}
