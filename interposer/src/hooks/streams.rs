//! Streams: some take a page in their context, which no API reports. It is freed when the context ends, and later
//! streams reuse it.

use core::ffi::c_int;

use gpumem_cuda_abi::{CuGreenCtx, CuResult, CuStream};

use super::contexts_seen;
use crate::call::Call;
use crate::evidence::{self, Before};
use crate::limit::Takes;
use crate::thread::Thread;

/// Records a new stream.
fn made(thread: &Thread, call: &Call, before: Option<Before>) {
    let place = before.map(|before| before.place);
    let place = place.or_else(|| contexts_seen::place(thread, call));
    evidence::stream_made(thread, call, place, before);
}

macro_rules! streams {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(
        hook! {
            $(#[$doc])*
            Driver Optional
            fn $name(stream: *mut CuStream, $($arg: $type),*) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes Takes::stream();
            with call, thread, result, held;
            before { contexts_seen::before(thread, &call) }
            after {
                if result.is_success() {
                    made(thread, &call, held.flatten());
                }
            }
        }
    )*};
}

streams! {
    /// A stream of the current context.
    fn cuStreamCreate(flags: u32);
    /// A stream of the current context, with a priority.
    fn cuStreamCreateWithPriority(flags: u32, priority: c_int);
    /// A stream of a green context.
    fn cuGreenCtxStreamCreate(green: CuGreenCtx, flags: u32, priority: c_int);
}
