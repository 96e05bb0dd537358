//! Host memory of the program that the driver pins: registered, not allocated.

use core::ffi::c_void;

use gpumem_capture::{EventFlags, Level};
use gpumem_cuda_abi::CuResult;

use super::blocks::{self, Request, Source};

/// Registered memory that belongs to the current context.
pub(super) const fn registered(bytes: u64) -> Request {
    Request {
        level: Level::HOST,
        bytes,
        source: Source::Context,
        flags: EventFlags::REGISTERED,
    }
}

macro_rules! registering {
    ($($(#[$doc:meta])* $name:ident $need:ident;)*) => {$(
        hook! {
            $(#[$doc])*
            Driver $need
            fn $name(pointer: *mut c_void, bytes: usize, flags: u32) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {}
            after {
                let asked = registered(bytes as u64);
                blocks::requested(&call, thread, result.0, asked, || pointer as u64);
            }
        }
    )*};
}

registering! {
    /// Pins memory of the program.
    cuMemHostRegister_v2 Required;
    /// CUDA 4.0's form.
    cuMemHostRegister Optional;
}

hook! {
    /// Unpins it; the memory still belongs to the program.
    Driver Required
    fn cuMemHostUnregister(pointer: *mut c_void) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let flags = EventFlags::REGISTERED;
        blocks::releasing(&mut call, thread, Level::HOST, pointer as u64, flags)
    }
    after { blocks::released(&call, thread, result.0, held); }
}
