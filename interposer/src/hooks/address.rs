//! Address space: reserved and given back, with no memory behind it until something is mapped there.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventKind, Level};
use gpumem_cuda_abi::{CuDevicePtr, CuResult};

use crate::call::Call;
use crate::sideband::{self, Sideband};
use crate::thread::Thread;
use gpumem_capture::writer::lock::{Guard, Lock};

/// The ranges that are reserved, by first address, never locked across a driver call.
fn reserved() -> Guard<'static, BTreeMap<u64, u64>> {
    static RESERVED: Lock<BTreeMap<u64, u64>> = Lock::new(BTreeMap::new());
    RESERVED.lock()
}

fn remark(thread: &Thread, call: &Call, kind: EventKind, ptr: u64, bytes: u64) {
    let begins = kind == EventKind::ADDRESS;
    let what = Sideband {
        ptr,
        bytes,
        aux: if begins { call.caller() } else { 0 },
        device: DeviceOrdinal::NONE,
        with_stacks: begins,
        ..Sideband::default()
    };
    sideband::record(thread, call.api(), kind, Level::DRIVER, what);
}

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
            reserved().insert(ptr, bytes as u64);
            remark(thread, &call, EventKind::ADDRESS, ptr, bytes as u64);
        }
    }
}

hook! {
    /// Gives a range of addresses back.
    Driver Optional
    fn cuMemAddressFree(pointer: CuDevicePtr, bytes: usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let known = reserved().remove(&pointer.0);
        known.inspect(|bytes| remark(thread, &call, EventKind::ADDRESS_END, pointer.0, *bytes))
    }
    after {
        if let (Some(Some(bytes)), false) = (held, result.is_success()) {
            reserved().insert(pointer.0, bytes);
            remark(thread, &call, EventKind::ADDRESS, pointer.0, bytes);
        }
    }
}
