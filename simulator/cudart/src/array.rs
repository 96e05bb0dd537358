//! Arrays.

use gpumem_cuda_abi::{CuArray3dDescriptor, CuArrayDescriptor, CudaError, CudaExtent};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Answer, Handle, In, Out, require};
use gpumem_sim_client::structures::ExternalArray;

/// `cudaChannelFormatDesc`: 20 bytes. The bits of each channel, and their kind.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    bits: [i32; 4],
    kind: u32,
}

const SIGNED: u32 = 0;
const UNSIGNED: u32 = 1;
const FLOAT: u32 = 2;
/// `cudaErrorInvalidChannelDescriptor`.
const INVALID_CHANNELS: CudaError = CudaError(20);

/// Plain formats: the driver's number, the kind, the bits.
const FORMATS: [(u32, u32, i32); 8] = [
    (0x01, UNSIGNED, 8),
    (0x02, UNSIGNED, 16),
    (0x03, UNSIGNED, 32),
    (0x08, SIGNED, 8),
    (0x09, SIGNED, 16),
    (0x0a, SIGNED, 32),
    (0x10, FLOAT, 16),
    (0x20, FLOAT, 32),
];

impl Channels {
    /// The result of `cudaCreateChannelDesc`.
    pub fn new(x: i32, y: i32, z: i32, w: i32, kind: u32) -> Self {
        Self {
            bits: [x, y, z, w],
            kind,
        }
    }

    /// The driver's format, and the number of channels.
    fn format(self) -> Answer<(u32, u32)> {
        let used = self.bits.iter().filter(|bits| **bits != 0).count() as u32;
        let found = FORMATS
            .iter()
            .find(|(_, kind, bits)| *kind == self.kind && *bits == self.bits[0]);
        match found {
            Some((format, ..)) if matches!(used, 1 | 2 | 4) => Ok((*format, used)),
            _ => Err(INVALID_CHANNELS),
        }
    }

    fn from_format(format: u32, channels: u32) -> Answer<Self> {
        let found = FORMATS.iter().find(|(known, ..)| *known == format);
        let (_, kind, width) = found.ok_or(INVALID_CHANNELS)?;
        let mut bits = [0; 4];
        bits.iter_mut()
            .take(channels as usize)
            .for_each(|b| *b = *width);
        Ok(Self { bits, kind: *kind })
    }
}

/// The shape of an array.
fn shape(array: Handle) -> Answer<CuArray3dDescriptor> {
    let mut shape = CuArray3dDescriptor {
        width: 0,
        height: 0,
        depth: 0,
        format: 0,
        num_channels: 0,
        flags: 0,
    };
    cu::cuArray3DGetDescriptor(Out::to(&mut shape), array)?;
    Ok(shape)
}

/// Bytes of one element of an array.
pub fn element_bytes(array: Handle) -> Answer<usize> {
    let shape = shape(array)?;
    let channels = Channels::from_format(shape.format, shape.num_channels)?;
    Ok(channels.bits.iter().map(|bits| *bits as usize / 8).sum())
}

/// `cudaMallocArray`.
pub fn malloc(
    array: Out<Handle>,
    channels: In<Channels>,
    width: usize,
    height: usize,
    flags: u32,
) -> Answer {
    if flags != 0 {
        let extent = CudaExtent {
            width,
            height,
            depth: 0,
        };
        return malloc_3d(array, channels, extent, flags);
    }
    require(!array.is_null())?;
    let (format, num_channels) = channels.get()?.format()?;
    let shape = CuArrayDescriptor {
        width,
        height,
        format,
        num_channels,
    };
    cu::cuArrayCreate(array, In::of(&shape))
}

fn described(
    channels: In<Channels>,
    extent: CudaExtent,
    flags: u32,
) -> Answer<CuArray3dDescriptor> {
    let (format, num_channels) = channels.get()?.format()?;
    Ok(CuArray3dDescriptor {
        width: extent.width,
        height: extent.height,
        depth: extent.depth,
        format,
        num_channels,
        flags,
    })
}

/// `cudaMalloc3DArray`. The flags are the driver's.
pub fn malloc_3d(
    array: Out<Handle>,
    channels: In<Channels>,
    extent: CudaExtent,
    flags: u32,
) -> Answer {
    require(!array.is_null())?;
    let shape = described(channels, extent, flags)?;
    cu::cuArray3DCreate(array, In::of(&shape))
}

/// `cudaMallocMipmappedArray`.
pub fn malloc_mipmapped(
    array: Out<Handle>,
    channels: In<Channels>,
    extent: CudaExtent,
    levels: u32,
    flags: u32,
) -> Answer {
    require(!array.is_null())?;
    let shape = described(channels, extent, flags)?;
    cu::cuMipmappedArrayCreate(array, In::of(&shape), levels)
}

/// `cudaExternalMemoryMipmappedArrayDesc`: 128 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct External {
    offset: u64,
    channels: Channels,
    extent: CudaExtent,
    flags: u32,
    levels: u32,
    reserved: [u32; 16],
}

/// `cudaExternalMemoryGetMappedMipmappedArray`.
pub fn map_external(array: Out<Handle>, memory: Handle, asked: In<External>) -> Answer {
    require(!array.is_null())?;
    let asked = asked.get()?;
    let descriptor = ExternalArray {
        offset: asked.offset,
        shape: described(In::of(&asked.channels), asked.extent, asked.flags)?,
        levels: asked.levels,
        reserved: [0; 16],
    };
    cu::cuExternalMemoryGetMappedMipmappedArray(array, memory, In::of(&descriptor))
}

/// `cudaFreeArray`: null is valid.
pub fn free(array: Handle) -> Answer {
    if array == 0 {
        return Ok(());
    }
    cu::cuArrayDestroy(array)
}

/// `cudaFreeMipmappedArray`: likewise.
pub fn free_mipmapped(array: Handle) -> Answer {
    if array == 0 {
        return Ok(());
    }
    cu::cuMipmappedArrayDestroy(array)
}

/// `cudaArrayGetInfo`.
pub fn get_info(
    channels: Out<Channels>,
    extent: Out<CudaExtent>,
    flags: Out<u32>,
    array: Handle,
) -> Answer {
    let shape = shape(array)?;
    if !channels.is_null() {
        channels.put(Channels::from_format(shape.format, shape.num_channels)?)?;
    }
    extent.put_if_asked(CudaExtent {
        width: shape.width,
        height: shape.height,
        depth: shape.depth,
    });
    flags.put_if_asked(shape.flags);
    Ok(())
}

/// `cudaGetChannelDesc`.
pub fn get_channels(channels: Out<Channels>, array: Handle) -> Answer {
    let shape = shape(array)?;
    channels.put(Channels::from_format(shape.format, shape.num_channels)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_go_there_and_back() {
        let four_floats = Channels::new(32, 32, 32, 32, FLOAT);
        assert_eq!(four_floats.format(), Ok((0x20, 4)));
        assert_eq!(Channels::from_format(0x20, 4), Ok(four_floats));
        let three = Channels::new(8, 8, 8, 0, UNSIGNED);
        assert_eq!(three.format(), Err(INVALID_CHANNELS));
        assert_eq!(size_of::<Channels>(), 20);
        assert_eq!(size_of::<External>(), 128);
    }
}
