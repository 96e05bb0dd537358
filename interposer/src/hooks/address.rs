//! Address space: reserved and freed, without memory behind it until memory is mapped there.

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::{CuDevicePtr, CuResult};
use gpumem_tracker::Tracker;

use super::blocks;
use crate::record;

hook! {
    /// Reserves a range of addresses.
    Driver Optional
    fn cuMemAddressReserve(
        pointer: *mut CuDevicePtr,
        bytes: usize,
        alignment: usize,
        wished: CuDevicePtr,
        flags: u64,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let ptr = unsafe { (*pointer).0 };
            record::with_stacks(thread, &call, DeviceOrdinal::NONE, |tracker, origin| {
                tracker.address_reserved(ptr, bytes as u64, call.caller(), origin);
            });
        }
    }
}

hook! {
    /// Frees a range of addresses.
    Driver Optional
    fn cuMemAddressFree(pointer: CuDevicePtr, bytes: usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let ending = |tracker: &mut Tracker, origin| tracker.address_ending(pointer.0, origin);
        record::without_stacks(thread, &call, ending).flatten()
    }
    after { blocks::ended(&call, thread, result, held); }
}
