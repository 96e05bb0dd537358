//! Arrays whose memory is mapped.

use crate::ffi::{Answer, Handle, In, Out, answer, require};
use crate::model::sparse::{Operation, Region, TILE_BYTES};
use crate::model::state::state;
use crate::model::stream::On;
use gpumem_cuda_abi::{CuDevice, CuResult};

/// `CUDA_ARRAY_MEMORY_REQUIREMENTS`: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Requirements {
    bytes: usize,
    alignment: usize,
    reserved: [u32; 4],
}

/// `CUDA_ARRAY_SPARSE_PROPERTIES`: 48 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    tile: [u32; 3],
    tail_level: u32,
    tail_bytes: u64,
    flags: u32,
    reserved: [u32; 4],
}

/// `CUarrayMapInfo`: 96 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MapInfo {
    /// `CUresourcetype`: 0 array, 1 mipmapped array.
    resource_kind: u32,
    resource: Handle,
    /// 0 part of a level, 1 part of the tail.
    part_kind: u32,
    part: [u64; 4],
    /// 1 map, 2 unmap.
    operation: u32,
    /// 0: a handle of `cuMemCreate`.
    memory_kind: u32,
    memory: u64,
    offset: u64,
    devices: u32,
    flags: u32,
    reserved: [u32; 2],
}

impl MapInfo {
    fn read(&self) -> Answer<Operation> {
        require(self.flags == 0 && self.resource_kind <= 1)?;
        let words = |n: usize| [self.part[n] as u32, (self.part[n] >> 32) as u32];
        let ([level, layer], [x, y], [z, width], [height, depth]) =
            (words(0), words(1), words(2), words(3));
        let region = match self.part_kind {
            0 => Region::Level {
                level,
                layer,
                offset: [x, y, z],
                extent: [width, height, depth],
            },
            1 => Region::Tail {
                layer: level,
                offset: self.part[1],
                bytes: self.part[2],
            },
            _ => return Err(CuResult::INVALID_VALUE),
        };
        let memory = match (self.operation, self.memory_kind, self.memory) {
            (1, 0, handle) => Some((handle, self.offset)),
            (2, _, 0) => None,
            _ => return Err(CuResult::INVALID_VALUE),
        };
        Ok(Operation {
            array: self.resource,
            mipmapped: self.resource_kind == 1,
            region,
            memory,
            devices: self.devices,
        })
    }
}

/// `cuMemMapArrayAsync`.
pub extern "C" fn map_arrays(list: In<MapInfo>, count: u32, stream: Handle) -> CuResult {
    answer(|| {
        let entries = list.list(count as usize)?;
        let operations: Answer<Vec<Operation>> = entries.iter().map(MapInfo::read).collect();
        let mut state = state()?;
        state.not_captured(On::legacy(stream))?;
        state.map_arrays(&operations?)
    })
}

/// `cuArrayGetMemoryRequirements`, `cuMipmappedArrayGetMemoryRequirements`.
pub extern "C" fn get_requirements(
    out: Out<Requirements>,
    array: Handle,
    device: CuDevice,
) -> CuResult {
    answer(|| {
        let state = state()?;
        state.device(device.0)?;
        out.put(Requirements {
            bytes: state.array_requirements(array)? as usize,
            alignment: TILE_BYTES as usize,
            reserved: [0; 4],
        })
    })
}

fn put_properties(out: Out<Properties>, array: Handle, mipmapped: bool) -> CuResult {
    answer(|| {
        let division = state()?.sparse_division(array, mipmapped)?;
        out.put(Properties {
            tile: division.tile,
            tail_level: division.tail_level,
            tail_bytes: division.tail_bytes,
            flags: 0,
            reserved: [0; 4],
        })
    })
}

/// `cuArrayGetSparseProperties`.
pub extern "C" fn get_properties(out: Out<Properties>, array: Handle) -> CuResult {
    put_properties(out, array, false)
}

/// `cuMipmappedArrayGetSparseProperties`.
pub extern "C" fn get_properties_mipmapped(out: Out<Properties>, array: Handle) -> CuResult {
    put_properties(out, array, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_cudas_sizes() {
        assert_eq!(size_of::<Requirements>(), 32);
        assert_eq!(size_of::<Properties>(), 48);
        assert_eq!(size_of::<MapInfo>(), 96);
    }
}
