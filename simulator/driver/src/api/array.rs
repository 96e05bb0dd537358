//! Arrays and mipmapped arrays.

use crate::ffi::{Answer, CuError, Handle, In, Out, require};
use crate::model::state::state;
use gpumem_cuda_abi::{CuArray3dDescriptor, CuArrayDescriptor};

fn in_3d(descriptor: &CuArrayDescriptor) -> CuArray3dDescriptor {
    CuArray3dDescriptor {
        width: descriptor.width,
        height: descriptor.height,
        depth: 0,
        format: descriptor.format,
        num_channels: descriptor.num_channels,
        flags: 0,
    }
}

fn make(out: Out<Handle>, descriptor: CuArray3dDescriptor, levels: u32) -> Answer {
    require(!out.is_null())?;
    let mut state = state()?;
    let current = state.current()?;
    out.put(state.create_array(current, descriptor, levels)?)
}

/// `cuArrayCreate`.
pub extern "C" fn create(out: Out<Handle>, descriptor: In<CuArrayDescriptor>) -> Answer {
    make(out, in_3d(&descriptor.get()?), 1)
}

/// `cuArray3DCreate`.
pub extern "C" fn create_3d(out: Out<Handle>, descriptor: In<CuArray3dDescriptor>) -> Answer {
    make(out, descriptor.get()?, 1)
}

/// `cuMipmappedArrayCreate`: all levels are one allocation.
pub extern "C" fn create_mipmapped(
    out: Out<Handle>,
    descriptor: In<CuArray3dDescriptor>,
    levels: u32,
) -> Answer {
    make(out, descriptor.get()?, levels)
}

/// `cuArrayDestroy`, `cuMipmappedArrayDestroy`.
pub extern "C" fn destroy(array: Handle) -> Answer {
    let mut state = state()?;
    state.bound()?;
    state.destroy_array(array)
}

/// `cuMipmappedArrayGetLevel`.
pub extern "C" fn get_level(out: Out<Handle>, array: Handle, level: u32) -> Answer {
    let state = state()?;
    let found = state.arrays.get(array).ok_or(CuError::INVALID_HANDLE)?;
    if found.levels.is_empty() && level == 0 {
        return out.put(array);
    }
    let handle = found.levels.get(level as usize);
    out.put(*handle.ok_or(CuError::INVALID_VALUE)?)
}

/// `cuArrayGetPlane`.
pub extern "C" fn get_plane(out: Out<Handle>, array: Handle, index: u32) -> Answer {
    require(!out.is_null())?;
    out.put(state()?.plane(array, index)?)
}

/// `cuArrayGetDescriptor`.
pub extern "C" fn get_descriptor(out: Out<CuArrayDescriptor>, array: Handle) -> Answer {
    let state = state()?;
    let found = state.arrays.get(array).ok_or(CuError::INVALID_HANDLE)?;
    out.put(CuArrayDescriptor {
        width: found.descriptor.width,
        height: found.descriptor.height,
        format: found.descriptor.format,
        num_channels: found.descriptor.num_channels,
    })
}

/// `cuArray3DGetDescriptor`.
pub extern "C" fn get_descriptor_3d(out: Out<CuArray3dDescriptor>, array: Handle) -> Answer {
    let state = state()?;
    let found = state.arrays.get(array).ok_or(CuError::INVALID_HANDLE)?;
    out.put(found.descriptor)
}

/// `cuArrayGetMemoryRequirements`, `cuArrayGetSparseProperties` and their variants for mipmapped
/// arrays: only sparse arrays have these properties, and sparse arrays are not simulated.
pub extern "C" fn ask_of_sparse(_: Out<u8>, array: Handle) -> Answer {
    let state = state()?;
    state.arrays.get(array).ok_or(CuError::INVALID_HANDLE)?;
    Err(CuError::INVALID_VALUE)
}
