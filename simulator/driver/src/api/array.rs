//! Arrays and mipmapped arrays.

use crate::ffi::{Answer, Handle, In, Out, answer, require};
use crate::model::array::{Array, Layout, level};
use crate::model::books::Kind;
use crate::model::state::state;
use gpumem_cuda_abi::{CuArray3dDescriptor, CuArrayDescriptor, CuResult};

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
    require(!out.is_null() && (1..=32).contains(&levels))?;
    let descriptors: Vec<CuArray3dDescriptor> =
        (0..levels).map(|l| level(&descriptor, l)).collect();
    let mut sizes = Vec::with_capacity(descriptors.len());
    for descriptor in &descriptors {
        let bytes = Layout::of(descriptor).and_then(|layout| layout.bytes());
        sizes.push(bytes.ok_or(CuResult::INVALID_VALUE)?);
    }
    let mut state = state()?;
    let current = state.current()?;
    let total = sizes
        .iter()
        .try_fold(0u64, |sum, bytes| sum.checked_add(*bytes));
    let total = total.ok_or(CuResult::OUT_OF_MEMORY)?;
    let base = state.allocate_device(current, total, Kind::Array)?;
    let mut at = base;
    let mut handles = Vec::new();
    if levels > 1 {
        for (descriptor, bytes) in descriptors.into_iter().zip(sizes) {
            handles.push(state.arrays.insert(Array {
                context: current.context,
                descriptor,
                base: at,
                owns: false,
                levels: Vec::new(),
            }));
            at += bytes;
        }
    }
    out.put(state.arrays.insert(Array {
        context: current.context,
        descriptor,
        base,
        owns: true,
        levels: handles,
    }))
}

/// `cuArrayCreate`.
pub extern "C" fn create(out: Out<Handle>, descriptor: In<CuArrayDescriptor>) -> CuResult {
    answer(|| make(out, in_3d(&descriptor.get()?), 1))
}

/// `cuArray3DCreate`.
pub extern "C" fn create_3d(out: Out<Handle>, descriptor: In<CuArray3dDescriptor>) -> CuResult {
    answer(|| make(out, descriptor.get()?, 1))
}

/// `cuMipmappedArrayCreate`: all levels are one allocation.
pub extern "C" fn create_mipmapped(
    out: Out<Handle>,
    descriptor: In<CuArray3dDescriptor>,
    levels: u32,
) -> CuResult {
    answer(|| make(out, descriptor.get()?, levels))
}

/// `cuArrayDestroy`, `cuMipmappedArrayDestroy`.
pub extern "C" fn destroy(array: Handle) -> CuResult {
    answer(|| {
        let mut state = state()?;
        state.bound()?;
        let found = state.arrays.get(array).filter(|array| array.owns);
        let base = found.ok_or(CuResult::INVALID_HANDLE)?.base;
        let levels = state.arrays.remove(array).map(|array| array.levels);
        for level in levels.unwrap_or_default() {
            state.arrays.remove(level);
        }
        state.free_allocation(base);
        Ok(())
    })
}

/// `cuMipmappedArrayGetLevel`.
pub extern "C" fn get_level(out: Out<Handle>, array: Handle, level: u32) -> CuResult {
    answer(|| {
        let state = state()?;
        let found = state.arrays.get(array).ok_or(CuResult::INVALID_HANDLE)?;
        if found.levels.is_empty() && level == 0 {
            return out.put(array);
        }
        let handle = found.levels.get(level as usize);
        out.put(*handle.ok_or(CuResult::INVALID_VALUE)?)
    })
}

/// `cuArrayGetDescriptor`.
pub extern "C" fn get_descriptor(out: Out<CuArrayDescriptor>, array: Handle) -> CuResult {
    answer(|| {
        let state = state()?;
        let found = state.arrays.get(array).ok_or(CuResult::INVALID_HANDLE)?;
        out.put(CuArrayDescriptor {
            width: found.descriptor.width,
            height: found.descriptor.height,
            format: found.descriptor.format,
            num_channels: found.descriptor.num_channels,
        })
    })
}

/// `cuArray3DGetDescriptor`.
pub extern "C" fn get_descriptor_3d(out: Out<CuArray3dDescriptor>, array: Handle) -> CuResult {
    answer(|| {
        let state = state()?;
        let found = state.arrays.get(array).ok_or(CuResult::INVALID_HANDLE)?;
        out.put(found.descriptor)
    })
}

/// `CUDA_ARRAY_MEMORY_REQUIREMENTS`: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Requirements {
    bytes: usize,
    alignment: usize,
    reserved: [u32; 4],
}

/// `cuArrayGetMemoryRequirements`, `cuMipmappedArrayGetMemoryRequirements`.
pub extern "C" fn get_requirements(out: Out<Requirements>, array: Handle) -> CuResult {
    answer(|| {
        let state = state()?;
        let found = state.arrays.get(array).ok_or(CuResult::INVALID_HANDLE)?;
        let held = state.memory.at(found.base);
        out.put(Requirements {
            bytes: held.ok_or(CuResult::INVALID_HANDLE)?.bytes as usize,
            alignment: 512,
            reserved: [0; 4],
        })
    })
}
