//! Two- and three-dimensional copies, between pitched memory and arrays.

use super::copy::{End, copy_now, copy_on, copy_part};
use super::copy_side::{ARRAY, DEVICE, HOST, UNIFIED};
use super::on_stream::{on_stream, submit, synchronously};
use crate::ffi::{Answer, CuError, Handle, In, require};
use crate::model::array::Layout;
use crate::model::graph::Work;
use crate::model::state::state;
use crate::model::stream::On;
use gpumem_cuda_abi::{CuDevicePtr, CuMemcpy3d, CuMemcpySide3d};

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

impl Side2d {
    fn in_3d(self) -> CuMemcpySide3d {
        CuMemcpySide3d {
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

/// A side with its addresses looked up: where row `y` of slice `z` starts.
struct Rows {
    start: u64,
    pitch: u64,
    slice: u64,
    wrap: fn(u64) -> End,
}

impl Rows {
    fn of(side: &CuMemcpySide3d, width: usize, height: usize) -> Answer<Self> {
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
                let array = array.ok_or(CuError::INVALID_HANDLE)?;
                let layout = Layout::of(&array.descriptor).ok_or(CuError::INVALID_HANDLE)?;
                require(side.x_bytes as u64 + width as u64 <= layout.row)?;
                require((side.y + height) as u64 <= layout.rows)?;
                (array.base, layout.row, layout.rows, End::Device)
            }
            _ => return Err(CuError::INVALID_VALUE),
        };
        let pitch = if pitch == 0 { width as u64 } else { pitch };
        let rows = if rows == 0 { height as u64 } else { rows };
        require(side.kind == ARRAY || side.x_bytes as u64 + width as u64 <= pitch || height <= 1)?;
        let slice = pitch.checked_mul(rows).ok_or(CuError::INVALID_VALUE)?;
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

/// Copies a box.
pub fn copy_box(copy: &CuMemcpy3d) -> Answer {
    let CuMemcpy3d {
        from,
        to,
        width_bytes: width,
        height,
        depth,
    } = copy;
    if *width == 0 || *height == 0 || *depth == 0 {
        return Ok(());
    }
    let (to, from) = (
        Rows::of(to, *width, *height)?,
        Rows::of(from, *width, *height)?,
    );
    let (width, height, depth) = (*width as u64, *height as u64, *depth as u64);
    let of = width.saturating_mul(height).saturating_mul(depth);
    // Contiguous rows are copied as one.
    if to.pitch == width && from.pitch == width {
        for z in 0..depth {
            copy_part(
                to.row(0, z),
                from.row(0, z),
                width.saturating_mul(height),
                of,
            )?;
        }
        return Ok(());
    }
    for z in 0..depth {
        for y in 0..height {
            copy_part(to.row(y, z), from.row(y, z), width, of)?;
        }
    }
    Ok(())
}

fn of_2d(parameters: In<Memcpy2d>) -> Answer<CuMemcpy3d> {
    let copy = parameters.get()?;
    Ok(CuMemcpy3d {
        from: copy.from.in_3d(),
        to: copy.to.in_3d(),
        width_bytes: copy.width_bytes,
        height: copy.height,
        depth: 1,
    })
}

/// `cuMemcpy2D`, `cuMemcpy2DUnaligned`.
pub extern "C" fn copy_2d(parameters: In<Memcpy2d>) -> Answer {
    let copy = of_2d(parameters)?;
    synchronously(|| copy_box(&copy))
}

/// `cuMemcpy3D`, `cuMemcpy3DPeer`.
pub extern "C" fn copy_3d(parameters: In<CuMemcpy3d>) -> Answer {
    let copy = parameters.get()?;
    synchronously(|| copy_box(&copy))
}

fn copy_2d_on(on: On, parameters: In<Memcpy2d>) -> Answer {
    let copy = of_2d(parameters)?;
    submit(on, Work::Copy(copy), || copy_box(&copy))
}

fn copy_3d_on(on: On, parameters: In<CuMemcpy3d>) -> Answer {
    let copy = parameters.get()?;
    submit(on, Work::Copy(copy), || copy_box(&copy))
}

fn host_to_array_on(on: On, array: Handle, offset: usize, from: Handle, bytes: usize) -> Answer {
    let to = array_side(array, offset)?;
    copy_on(on, End::Device(to), End::Host(from as u64), bytes)
}

fn array_to_host_on(on: On, to: Handle, array: Handle, offset: usize, bytes: usize) -> Answer {
    let from = array_side(array, offset)?;
    copy_on(on, End::Host(to as u64), End::Device(from), bytes)
}

on_stream! {
    "`cuMemcpy2DAsync`." copy_2d_async copy_2d_own [parameters: In<Memcpy2d>] [] = copy_2d_on;
    "`cuMemcpy3DAsync`, `cuMemcpy3DPeerAsync`." copy_3d_async copy_3d_own
        [parameters: In<CuMemcpy3d>] [] = copy_3d_on;
    "`cuMemcpyHtoAAsync`." host_to_array_async host_to_array_own
        [array: Handle, offset: usize, from: Handle, bytes: usize] [] = host_to_array_on;
    "`cuMemcpyAtoHAsync`." array_to_host_async array_to_host_own
        [to: Handle, array: Handle, offset: usize, bytes: usize] [] = array_to_host_on;
}

fn array_side(array: Handle, offset: usize) -> Answer<u64> {
    let state = state()?;
    let array = state.arrays.get(array).ok_or(CuError::INVALID_HANDLE)?;
    Ok(array.base + offset as u64)
}

/// `cuMemcpyDtoA`.
pub extern "C" fn device_to_array(
    array: Handle,
    offset: usize,
    from: CuDevicePtr,
    bytes: usize,
) -> Answer {
    let to = array_side(array, offset)?;
    copy_now(End::Device(to), End::Device(from.0), bytes)
}

/// `cuMemcpyAtoD`.
pub extern "C" fn array_to_device(
    to: CuDevicePtr,
    array: Handle,
    offset: usize,
    bytes: usize,
) -> Answer {
    let from = array_side(array, offset)?;
    copy_now(End::Device(to.0), End::Device(from), bytes)
}

/// `cuMemcpyHtoA`.
pub extern "C" fn host_to_array(
    array: Handle,
    offset: usize,
    from: Handle,
    bytes: usize,
) -> Answer {
    let to = array_side(array, offset)?;
    copy_now(End::Device(to), End::Host(from as u64), bytes)
}

/// `cuMemcpyAtoH`.
pub extern "C" fn array_to_host(to: Handle, array: Handle, offset: usize, bytes: usize) -> Answer {
    let from = array_side(array, offset)?;
    copy_now(End::Host(to as u64), End::Device(from), bytes)
}

/// `cuMemcpyAtoA`.
pub extern "C" fn array_to_array(
    to: Handle,
    to_offset: usize,
    from: Handle,
    from_offset: usize,
    bytes: usize,
) -> Answer {
    let (to, from) = (array_side(to, to_offset)?, array_side(from, from_offset)?);
    copy_now(End::Device(to), End::Device(from), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_cudas_sizes() {
        assert_eq!(size_of::<Memcpy2d>(), 128);
    }
}
