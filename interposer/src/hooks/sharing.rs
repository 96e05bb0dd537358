//! Memory that is shared with other processes: it may stay on the card after its release here, as long
//! as they have it open.

use core::ffi::c_void;

use gpumem_cuda_abi::{CuDevicePtr, CuIpcMemHandle, CuMemHandle, CuMemoryPool, CuResult};

use crate::evidence;

macro_rules! exports {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(
        hook! {
            $(#[$doc])*
            Driver Optional
            fn $name($($arg: $type),*) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {}
            after {
                if result.is_success() {
                    evidence::handed_out();
                }
            }
        }
    )*};
}

exports! {
    /// A handle of physical memory for other processes.
    fn cuMemExportToShareableHandle(shared: *mut c_void, handle: CuMemHandle, kind: u32, flags: u64);
    /// A pool for other processes.
    fn cuMemPoolExportToShareableHandle(
        shared: *mut c_void, pool: CuMemoryPool, kind: u32, flags: u64
    );
    /// An address for other processes.
    fn cuIpcGetMemHandle(handle: *mut CuIpcMemHandle, pointer: CuDevicePtr);
}
