//! Limits of contexts: heap, print buffer and stacks that kernels use.

use gpumem_cuda_abi::CuResult;

use crate::limit::Takes;
use crate::nvml::implicit::{self, Before};
use crate::nvml::kernels;

/// `CU_LIMIT_STACK_SIZE`, which takes effect at the next launch.
const STACK: u32 = 0;

hook! {
    /// Sets a limit of the current context.
    Driver Optional
    fn cuCtxSetLimit(limit: u32, value: usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::context_limit();
    with call, thread, result, held;
    before {
        let asking = (limit == STACK).then(kernels::Asking::begin);
        (asking, implicit::before())
    }
    after {
        if let (true, Some((_asking, Some(before)))) = (result.is_success(), held) {
            let context = Before::context(&before);
            implicit::settle_context(thread, &call, before);
            if limit == STACK {
                kernels::stacks_grow(context);
            }
        }
    }
}
