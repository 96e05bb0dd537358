//! Two- and three-dimensional copies, between pitched memory and arrays alike.

use super::copy::{End, copy};
use crate::ffi::{Answer, Handle, In, answer, require};
use crate::model::array::Layout;
use crate::model::state::state;
use gpumem_cuda_abi::{CuDevicePtr, CuResult};

/// One side of `CUDA_MEMCPY2D`: 56 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side2d {
    x_bytes: usize,
    y: usize,
    kind: u32,
    host: Handle,
    device: CuDevicePtr,
    array: Handle,
    pitch: usize,
}

/// `CUDA_MEMCPY2D` (`_v2`): 128 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memcpy2d {
    from: Side2d,
    to: Side2d,
    width_bytes: usize,
    height: usize,
}

/// One side of `CUDA_MEMCPY3D` and of `CUDA_MEMCPY3D_PEER`: 88 bytes. Where the peer's has its
/// context, the other has a reserved pointer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side3d {
    x_bytes: usize,
    y: usize,
    z: usize,
    lod: usize,
    kind: u32,
    host: Handle,
    device: CuDevicePtr,
    array: Handle,
    context: Handle,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D` (`_v2`) and `CUDA_MEMCPY3D_PEER`: 200 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memcpy3d {
    from: Side3d,
    to: Side3d,
    width_bytes: usize,
    height: usize,
    depth: usize,
}

const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

impl Side2d {
    fn in_3d(self) -> Side3d {
        Side3d {
            x_bytes: self.x_bytes,
            y: self.y,
            z: 0,
            lod: 0,
            kind: self.kind,
            host: self.host,
            device: self.device,
            array: self.array,
            context: 0,
            pitch: self.pitch,
            height: 0,
        }
    }
}

/// A side with everything looked up: where row `y` of slice `z` starts.
struct Rows {
    start: u64,
    pitch: u64,
    slice: u64,
    wrap: fn(u64) -> End,
}

impl Rows {
    fn of(side: &Side3d, width: usize, height: usize) -> Answer<Self> {
        let (base, pitch, rows, wrap): (u64, u64, u64, fn(u64) -> End) = match side.kind {
            HOST => (
                side.host as u64,
                side.pitch as u64,
                side.height as u64,
                End::Host,
            ),
            DEVICE => (
                side.device.0,
                side.pitch as u64,
                side.height as u64,
                End::Device,
            ),
            UNIFIED => (
                side.device.0,
                side.pitch as u64,
                side.height as u64,
                End::Unified,
            ),
            ARRAY => {
                let state = state()?;
                let array = state.arrays.get(side.array);
                let array = array.ok_or(CuResult::INVALID_HANDLE)?;
                let layout = Layout::of(&array.descriptor).ok_or(CuResult::INVALID_HANDLE)?;
                require(side.x_bytes as u64 + width as u64 <= layout.row)?;
                require((side.y + height) as u64 <= layout.rows)?;
                (array.base, layout.row, layout.rows, End::Device)
            }
            _ => return Err(CuResult::INVALID_VALUE),
        };
        let pitch = if pitch == 0 { width as u64 } else { pitch };
        let rows = if rows == 0 { height as u64 } else { rows };
        require(side.kind == ARRAY || side.x_bytes as u64 + width as u64 <= pitch || height <= 1)?;
        let slice = pitch.checked_mul(rows).ok_or(CuResult::INVALID_VALUE)?;
        let start = base
            .wrapping_add(slice.wrapping_mul(side.z as u64))
            .wrapping_add(pitch.wrapping_mul(side.y as u64))
            .wrapping_add(side.x_bytes as u64);
        Ok(Self {
            start,
            pitch,
            slice,
            wrap,
        })
    }

    fn row(&self, y: u64, z: u64) -> End {
        (self.wrap)(self.start + z * self.slice + y * self.pitch)
    }
}

fn copy_box(to: &Side3d, from: &Side3d, width: usize, height: usize, depth: usize) -> Answer {
    if width == 0 || height == 0 || depth == 0 {
        return Ok(());
    }
    let (to, from) = (Rows::of(to, width, height)?, Rows::of(from, width, height)?);
    for z in 0..depth as u64 {
        for y in 0..height as u64 {
            copy(to.row(y, z), from.row(y, z), width as u64)?;
        }
    }
    Ok(())
}

/// `cuMemcpy2D`, `cuMemcpy2DUnaligned`, `cuMemcpy2DAsync`.
pub extern "C" fn copy_2d(parameters: In<Memcpy2d>) -> CuResult {
    answer(|| {
        let p = parameters.get()?;
        copy_box(&p.to.in_3d(), &p.from.in_3d(), p.width_bytes, p.height, 1)
    })
}

/// `cuMemcpy3D`, `cuMemcpy3DAsync`, `cuMemcpy3DPeer`, `cuMemcpy3DPeerAsync`.
pub extern "C" fn copy_3d(parameters: In<Memcpy3d>) -> CuResult {
    answer(|| {
        let p = parameters.get()?;
        copy_box(&p.to, &p.from, p.width_bytes, p.height, p.depth)
    })
}

fn array_side(array: Handle, offset: usize) -> Answer<u64> {
    let state = state()?;
    let array = state.arrays.get(array).ok_or(CuResult::INVALID_HANDLE)?;
    Ok(array.base + offset as u64)
}

/// `cuMemcpyDtoA`.
pub extern "C" fn device_to_array(
    array: Handle,
    offset: usize,
    from: CuDevicePtr,
    bytes: usize,
) -> CuResult {
    answer(|| {
        let to = array_side(array, offset)?;
        copy(End::Device(to), End::Device(from.0), bytes as u64)
    })
}

/// `cuMemcpyAtoD`.
pub extern "C" fn array_to_device(
    to: CuDevicePtr,
    array: Handle,
    offset: usize,
    bytes: usize,
) -> CuResult {
    answer(|| {
        let from = array_side(array, offset)?;
        copy(End::Device(to.0), End::Device(from), bytes as u64)
    })
}

/// `cuMemcpyHtoA`, `cuMemcpyHtoAAsync`.
pub extern "C" fn host_to_array(
    array: Handle,
    offset: usize,
    from: Handle,
    bytes: usize,
) -> CuResult {
    answer(|| {
        let to = array_side(array, offset)?;
        copy(End::Device(to), End::Host(from as u64), bytes as u64)
    })
}

/// `cuMemcpyAtoH`, `cuMemcpyAtoHAsync`.
pub extern "C" fn array_to_host(
    to: Handle,
    array: Handle,
    offset: usize,
    bytes: usize,
) -> CuResult {
    answer(|| {
        let from = array_side(array, offset)?;
        copy(End::Host(to as u64), End::Device(from), bytes as u64)
    })
}

/// `cuMemcpyAtoA`.
pub extern "C" fn array_to_array(
    to: Handle,
    to_offset: usize,
    from: Handle,
    from_offset: usize,
    bytes: usize,
) -> CuResult {
    answer(|| {
        let (to, from) = (array_side(to, to_offset)?, array_side(from, from_offset)?);
        copy(End::Device(to), End::Device(from), bytes as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_cudas_sizes() {
        assert_eq!(size_of::<Memcpy2d>(), 128);
        assert_eq!(size_of::<Memcpy3d>(), 200);
    }
}
