//! The work of a graph's node, from its parameters.

use super::copy_side::{ARRAY, UNIFIED};
use super::{fill, kernel};
use crate::ffi::{Answer, CuError, Handle, require};
use crate::model::graph::Work;
use crate::model::state::state;
use gpumem_cuda_abi::{
    CuDevicePtr, CuGraphNodeParams, CuGraphNodeUnion, CuHostNodeParams, CuKernelNodeParams,
    CuMemcpy3d, CuMemsetNodeParams,
};
use std::mem::size_of;

/// `CUDA_KERNEL_NODE_PARAMS` before CUDA 12: without the last two members.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelParamsV1 {
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    arguments: usize,
    extra: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS` (`_v1`): without the context.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemsetParamsV1 {
    to: CuDevicePtr,
    pitch: usize,
    value: u32,
    element_bytes: u32,
    columns: usize,
    rows: usize,
}

/// `CUDA_MEMCPY_NODE_PARAMS`: 216 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemcpyParams {
    /// 0.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// The context to run in.
    pub context: usize,
    /// The copy.
    pub copy: CuMemcpy3d,
}

impl From<KernelParamsV1> for CuKernelNodeParams {
    fn from(v1: KernelParamsV1) -> Self {
        Self {
            function: v1.function,
            grid: v1.grid,
            block: v1.block,
            shared_bytes: v1.shared_bytes,
            arguments: v1.arguments,
            extra: v1.extra,
            kernel: 0,
            context: 0,
        }
    }
}

impl From<CuKernelNodeParams> for KernelParamsV1 {
    fn from(newer: CuKernelNodeParams) -> Self {
        Self {
            function: newer.function,
            grid: newer.grid,
            block: newer.block,
            shared_bytes: newer.shared_bytes,
            arguments: newer.arguments,
            extra: newer.extra,
        }
    }
}

impl From<CuMemsetNodeParams> for MemsetParamsV1 {
    fn from(newer: CuMemsetNodeParams) -> Self {
        Self {
            to: newer.to,
            pitch: newer.pitch,
            value: newer.value,
            element_bytes: newer.element_bytes,
            columns: newer.columns,
            rows: newer.rows,
        }
    }
}

impl MemsetParamsV1 {
    /// With the context of the fill.
    pub fn with(self, context: usize) -> CuMemsetNodeParams {
        CuMemsetNodeParams {
            to: self.to,
            pitch: self.pitch,
            value: self.value,
            element_bytes: self.element_bytes,
            columns: self.columns,
            rows: self.rows,
            context,
        }
    }
}

/// Work of a kernel, checked. The function may be a kernel without a context. Its arguments are not
/// kept, because code is never read.
pub fn kernel_work(parameters: CuKernelNodeParams) -> Answer<Work> {
    let mut kept = CuKernelNodeParams {
        arguments: 0,
        extra: 0,
        ..parameters
    };
    if kept.function == 0 {
        kept.function = kept.kernel;
        kept.kernel = 0;
    }
    kernel::check(&kept)?;
    let state = state()?;
    if kept.context == 0 {
        kept.context = state.bound()?.context;
    }
    Ok(Work::Kernel(kept))
}

/// Work of a copy.
pub fn copy_work(copy: CuMemcpy3d) -> Answer<Work> {
    let known = |kind: u32| (1..=UNIFIED).contains(&kind);
    require(known(copy.from.kind) && known(copy.to.kind))?;
    let state = state()?;
    for side in [&copy.from, &copy.to] {
        require(side.kind != ARRAY || state.arrays.get(side.array).is_some())?;
    }
    Ok(Work::Copy(copy))
}

/// Work of a fill.
pub fn fill_work(parameters: CuMemsetNodeParams) -> Answer<Work> {
    fill::check(&parameters)?;
    Ok(Work::Fill(parameters))
}

/// A call of a host function.
pub fn host_work(parameters: CuHostNodeParams) -> Answer<Work> {
    require(parameters.function != 0)?;
    Ok(Work::Host(parameters))
}

/// Work of an event: its record, or the wait for it.
pub fn event_work(event: Handle, make: fn(usize) -> Work) -> Answer<Work> {
    let known = state()?.events.get(event).is_some();
    require(known)?;
    Ok(make(event))
}

/// The member of the parameters' union that the type selects.
pub fn member<T: Copy>(parameters: &CuGraphNodeParams) -> T {
    debug_assert!(size_of::<T>() <= size_of::<CuGraphNodeUnion>());
    // SAFETY: every member of the union is plain data without invalid values, starts where the
    // union does, and is no larger; the C caller filled the member that the type selects.
    unsafe {
        std::ptr::from_ref(&parameters.parameters)
            .cast::<T>()
            .read_unaligned()
    }
}

/// Writes a member of the parameters' union.
pub fn put_member<T: Copy>(parameters: &mut CuGraphNodeParams, value: T) {
    debug_assert!(size_of::<T>() <= size_of::<CuGraphNodeUnion>());
    let place = std::ptr::from_mut(&mut parameters.parameters).cast::<T>();
    // SAFETY: as in `member`; the place is local.
    unsafe { place.write_unaligned(value) };
}

/// The work that parameters define, for nodes without memory or children.
pub fn work_of(parameters: &CuGraphNodeParams) -> Answer<Work> {
    match parameters.kind.0 {
        0 => kernel_work(member(parameters)),
        1 => copy_work(member::<MemcpyParams>(parameters).copy),
        2 => fill_work(member(parameters)),
        3 => host_work(member(parameters)),
        5 => Ok(Work::Empty),
        6 => event_work(member(parameters), Work::Wait),
        7 => event_work(member(parameters), Work::Record),
        // Semaphores, batches of memory operations, conditions.
        8 | 9 | 12 | 13 => Err(CuError::NOT_SUPPORTED),
        _ => Err(CuError::INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpumem_cuda_abi::CuChildGraphNodeParams;

    #[test]
    fn the_structures_have_cudas_sizes() {
        assert_eq!(size_of::<KernelParamsV1>(), 56);
        assert_eq!(size_of::<MemsetParamsV1>(), 40);
        assert_eq!(size_of::<MemcpyParams>(), 216);
        assert_eq!(size_of::<CuChildGraphNodeParams>(), 16);
    }
}
