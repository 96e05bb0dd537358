//! Limits of contexts: heap, print buffer and stacks that kernels use.

use gpumem_cuda_abi::CuResult;

use super::contexts_seen;
use crate::evidence;
use crate::limit::Takes;

hook! {
    /// Sets a limit of the current context.
    Driver Optional
    fn cuCtxSetLimit(limit: u32, value: usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::context_limit();
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            evidence::limit_set(thread, &call, contexts_seen::place(thread, &call));
        }
    }
}
