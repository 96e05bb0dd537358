//! Execution contexts: the driver's green contexts.

use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Answer, Handle, Out, require};

/// `CU_GREEN_CTX_DEFAULT_STREAM`, which the driver requires.
const DEFAULT_STREAM: u32 = 1;

/// `cudaGreenCtxCreate`: takes no flags.
pub fn create(green: Out<Handle>, descriptor: Handle, device: i32, flags: u32) -> Answer {
    require(flags == 0)?;
    cu::cuGreenCtxCreate(green, descriptor, device, DEFAULT_STREAM)
}

/// `cudaExecutionCtxGetDevice`.
pub fn get_device(device: Out<i32>, green: Handle) -> Answer {
    within(green, || cu::cuCtxGetDevice(device))
}

/// `cudaExecutionCtxSynchronize`.
pub fn synchronize(green: Handle) -> Answer {
    within(green, cu::cuCtxSynchronize)
}

/// Runs `inside` with a green context current.
fn within(green: Handle, inside: impl FnOnce() -> Answer) -> Answer {
    let (mut context, mut before) = (0, 0);
    cu::cuCtxFromGreenCtx(Out::to(&mut context), green)?;
    cu::cuCtxGetCurrent(Out::to(&mut before))?;
    cu::cuCtxSetCurrent(context)?;
    let answer = inside();
    cu::cuCtxSetCurrent(before)?;
    answer
}
