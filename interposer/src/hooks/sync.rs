//! Synchronisation: not an event, but pools free unused memory at it, and a context whose creation was
//! not seen is noticed.

use gpumem_cuda_abi::{CuContext, CuEvent, CuResult, CuStream};

use super::contexts_seen;
use crate::record;

macro_rules! synchronising {
    ($($(#[$doc:meta])* $need:ident $name:ident($($arg:ident: $type:ty)?);)*) => {$(
        hook! {
            $(#[$doc])*
            Driver $need
            fn $name($($arg: $type)?) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {}
            after {
                contexts_seen::in_use(thread, &call);
                record::settle(thread, call.api());
            }
        }
    )*};
}

synchronising! {
    /// Waits for a stream.
    Required cuStreamSynchronize(stream: CuStream);
    /// Waits for a stream, per-thread default stream.
    Required cuStreamSynchronize_ptsz(stream: CuStream);
    /// Waits for an event.
    Required cuEventSynchronize(event: CuEvent);
    /// Waits for the current context.
    Required cuCtxSynchronize();
    /// Waits for a context, since CUDA 13.
    Optional cuCtxSynchronize_v2(context: CuContext);
}
