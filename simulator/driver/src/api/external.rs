//! Memory of other interfaces.

use crate::ffi::{Answer, CuError, Handle, In, Out, require};
use crate::model::state::state;
use gpumem_cuda_abi::{CuArray3dDescriptor, CuDevicePtr};

/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD`, the only kind that is simulated.
const OPAQUE_FD: u32 = 1;
/// The last kind that CUDA defines: `DMABUF_FD`.
const LAST_KIND: u32 = 9;
/// `CUDA_EXTERNAL_MEMORY_DEDICATED`.
const DEDICATED: u32 = 1;

/// `CUDA_EXTERNAL_MEMORY_HANDLE_DESC`: 104 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HandleDescriptor {
    kind: u32,
    padding: u32,
    /// A union, whose first word is the descriptor.
    file: i32,
    rest: [u32; 3],
    bytes: u64,
    flags: u32,
    reserved: [u32; 16],
}

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`: 88 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BufferDescriptor {
    offset: u64,
    bytes: u64,
    flags: u32,
    reserved: [u32; 16],
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`: 120 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ArrayDescriptor {
    offset: u64,
    array: CuArray3dDescriptor,
    levels: u32,
    reserved: [u32; 16],
}

/// `cuImportExternalMemory`: on success the descriptor belongs to the driver.
pub extern "C" fn import(out: Out<Handle>, descriptor: In<HandleDescriptor>) -> Answer {
    require(!out.is_null())?;
    let HandleDescriptor {
        kind,
        file,
        bytes,
        flags,
        ..
    } = descriptor.get()?;
    require((OPAQUE_FD..=LAST_KIND).contains(&kind) && flags & !DEDICATED == 0)?;
    let mut state = state()?;
    state.current()?;
    if kind != OPAQUE_FD {
        return Err(CuError::NOT_SUPPORTED);
    }
    out.put(state.import_external(file, bytes)?)
}

/// `cuExternalMemoryGetMappedBuffer`.
pub extern "C" fn get_buffer(
    out: Out<CuDevicePtr>,
    memory: Handle,
    descriptor: In<BufferDescriptor>,
) -> Answer {
    require(!out.is_null())?;
    let BufferDescriptor {
        offset,
        bytes,
        flags,
        ..
    } = descriptor.get()?;
    require(flags == 0)?;
    let mut state = state()?;
    let current = state.current()?;
    let base = state.map_external(current, memory, (offset, bytes))?;
    out.put(CuDevicePtr(base))
}

/// `cuExternalMemoryGetMappedMipmappedArray`.
pub extern "C" fn get_array(
    out: Out<Handle>,
    memory: Handle,
    descriptor: In<ArrayDescriptor>,
) -> Answer {
    require(!out.is_null())?;
    let ArrayDescriptor {
        offset,
        array,
        levels,
        ..
    } = descriptor.get()?;
    let mut state = state()?;
    let current = state.current()?;
    out.put(state.map_external_array(current, memory, offset, array, levels)?)
}

/// `cuDestroyExternalMemory`.
pub extern "C" fn destroy(memory: Handle) -> Answer {
    let mut state = state()?;
    state.bound()?;
    state.destroy_external(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_cudas_sizes() {
        assert_eq!(size_of::<HandleDescriptor>(), 104);
        assert_eq!(std::mem::offset_of!(HandleDescriptor, file), 8);
        assert_eq!(size_of::<BufferDescriptor>(), 88);
        assert_eq!(size_of::<ArrayDescriptor>(), 120);
        assert_eq!(std::mem::offset_of!(ArrayDescriptor, levels), 48);
    }
}
