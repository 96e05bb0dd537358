//! Bytes of arrays, by their descriptors (cuda.h, CUDA 2.0 to 13.5): the requested size. A driver may add
//! padding to an array, which it does not report.

use gpumem_cuda_abi::CuArray3dDescriptor;

/// Depth is a number of layers.
const LAYERED: u32 = 0x01;
/// Depth is six faces, or six for each layer.
const CUBEMAP: u32 = 0x04;
/// `cuMemMapArrayAsync` maps memory to it, tile by tile.
const SPARSE: u32 = 0x40;
/// `cuMemMapArrayAsync` maps memory to all of it.
const DEFERRED_MAPPING: u32 = 0x80;

/// The layout of the texels of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Texels {
    /// This many bytes for each channel.
    Channel(u64),
    /// This many bytes for all channels of one texel.
    Whole(u64),
    /// This many bytes for each block of 4 × 4 texels.
    Block(u64),
    /// This many bytes for each sample, with two chroma samples for 2 × 2 texels.
    Yuv420(u64),
    /// This many bytes for each sample, with two chroma samples for 2 × 1 texels.
    Yuv422(u64),
}

/// A `CUarray_format`, if it is known.
fn texels(format: u32) -> Option<Texels> {
    use Texels::{Block, Channel, Whole, Yuv420, Yuv422};
    Some(match format {
        // Integers and floats.
        0x01 | 0x08 => Channel(1),
        0x02 | 0x09 | 0x10 => Channel(2),
        0x03 | 0x0a | 0x20 => Channel(4),
        // Normalized integers: 1, 2 and 4 channels of 8 and of 16 bits, unsigned and signed.
        0xc0 | 0xc6 => Whole(1),
        0xc1 | 0xc7 | 0xc3 | 0xc9 => Whole(2),
        0xc2 | 0xc8 | 0xc4 | 0xca => Whole(4),
        0xc5 | 0xcb => Whole(8),
        0x50 => Whole(4), // 10, 10, 10 and 2 bits
        // Block-compressed: BC1 and BC4; BC2, BC3, BC5, BC6H and BC7.
        0x91 | 0x92 | 0x97 | 0x98 => Block(8),
        0x93..=0x96 | 0x99..=0x9e => Block(16),
        // 4:2:0, of 8 bits (NV12, …) and of 16 (P010, P016, …).
        0xb0 | 0x53 | 0x59 => Yuv420(1),
        0x9f | 0xa1 | 0x54 | 0x5a => Yuv420(2),
        // 4:2:2, of 8 bits (NV16, YUY2, …) and of 16 (P210, P216, Y210, Y216, …).
        0xa2 | 0xa5 | 0x51 | 0x55 | 0x5b => Yuv422(1),
        0xa3 | 0xa4 | 0xa6 | 0xa7 | 0x56 | 0x5c => Yuv422(2),
        // 4:4:4: AYUV, Y410 and packed; Y416; planar and semi-planar of 8 bits and of 16.
        0xa8 | 0xa9 | 0x52 => Whole(4),
        0xb1 => Whole(8),
        0xb2 | 0xb4 | 0x57 | 0x5d => Whole(3),
        0xb3 | 0xb5 | 0x58 | 0x5e => Whole(6),
        _ => return None,
    })
}

/// Whether the array itself has no memory.
pub(super) fn is_sparse(flags: u32) -> bool {
    flags & (SPARSE | DEFERRED_MAPPING) != 0
}

/// Bytes of one array: an extent of 0 counts as 1. An array that is too large for 64 bits counts as the largest number.
/// `None` if the format is unknown.
fn plain(array: &CuArray3dDescriptor) -> Option<u64> {
    let extent = |extent: usize| extent.max(1) as u64;
    let (width, height, depth) = (
        extent(array.width),
        extent(array.height),
        extent(array.depth),
    );
    let texels = texels(array.format)?;
    let area = |width: u64, height: u64| width.saturating_mul(height);
    let samples = |chroma: u64| area(width, height).saturating_add(chroma.saturating_mul(2));
    let half = |extent: u64| extent.div_ceil(2);
    let (units, bytes) = match texels {
        Texels::Channel(bytes) => (
            area(width, height),
            bytes.saturating_mul(u64::from(array.num_channels)),
        ),
        Texels::Whole(bytes) => (area(width, height), bytes),
        Texels::Block(bytes) => (area(width.div_ceil(4), height.div_ceil(4)), bytes),
        Texels::Yuv420(bytes) => (samples(area(half(width), half(height))), bytes),
        Texels::Yuv422(bytes) => (samples(area(half(width), height)), bytes),
    };
    Some(units.saturating_mul(bytes).saturating_mul(depth))
}

/// Bytes of a mipmapped array: the sum of its levels, each half as large as the previous one in every
/// dimension, down to 1. Layers and faces are not halved. The requested number of levels, but at most as
/// many as it takes to reach one texel.
pub(super) fn mipmapped(array: &CuArray3dDescriptor, levels: u32) -> Option<u64> {
    let fixed = array.flags & (LAYERED | CUBEMAP) != 0;
    let largest = array.width.max(array.height);
    let largest = if fixed {
        largest
    } else {
        largest.max(array.depth)
    };
    let most = largest.max(1).ilog2() + 1;
    (0..levels.clamp(1, most)).try_fold(0u64, |sum, level| {
        let half = |extent: usize| {
            if extent == 0 {
                0
            } else {
                (extent >> level).max(1)
            }
        };
        let of_level = CuArray3dDescriptor {
            width: half(array.width),
            height: half(array.height),
            depth: if fixed {
                array.depth
            } else {
                half(array.depth)
            },
            ..*array
        };
        Some(sum.saturating_add(plain(&of_level)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(width: usize, height: usize, depth: usize, format: u32) -> CuArray3dDescriptor {
        CuArray3dDescriptor {
            width,
            height,
            depth,
            format,
            num_channels: 4,
            flags: 0,
        }
    }

    #[test]
    fn channels_and_extents() {
        assert_eq!(plain(&array(10, 0, 0, 0x20)), Some(160));
        assert_eq!(plain(&array(10, 3, 0, 0x10)), Some(240));
        assert_eq!(plain(&array(10, 3, 2, 0x01)), Some(240));
        assert_eq!(plain(&array(usize::MAX, 3, 2, 0x20)), Some(u64::MAX));
        assert_eq!(plain(&array(1 << 40, 1 << 40, 0, 0xb0)), Some(u64::MAX));
        assert_eq!(plain(&array(10, 3, 2, 0x77)), None);
    }

    #[test]
    fn packed_and_compressed_formats() {
        assert_eq!(plain(&array(5, 5, 0, 0x91)), Some(4 * 8));
        assert_eq!(plain(&array(8, 8, 0, 0x9e)), Some(4 * 16));
        assert_eq!(plain(&array(10, 3, 0, 0xc5)), Some(240));
        assert_eq!(plain(&array(10, 3, 0, 0x50)), Some(120));
        assert_eq!(
            plain(&array(1920, 1080, 0, 0xb0)),
            Some(1920 * 1080 * 3 / 2)
        );
        assert_eq!(plain(&array(1920, 1080, 0, 0x9f)), Some(1920 * 1080 * 3));
        assert_eq!(plain(&array(1920, 1080, 0, 0xa2)), Some(1920 * 1080 * 2));
        assert_eq!(plain(&array(1920, 1080, 0, 0xa4)), Some(1920 * 1080 * 4));
        assert_eq!(plain(&array(1920, 1080, 0, 0xb2)), Some(1920 * 1080 * 3));
        assert_eq!(plain(&array(3, 3, 0, 0xb0)), Some(9 + 2 * 4));
    }

    /// Every format of CUDA 13.5's header is known.
    #[test]
    fn all_formats() {
        let known: Vec<u32> = (0..=0xff).filter(|f| texels(*f).is_some()).collect();
        let wanted = (0x01..=0x03)
            .chain(0x08..=0x0a)
            .chain([0x10, 0x20])
            .chain(0x50..=0x5e)
            .chain(0x91..=0x9f)
            .chain(0xa1..=0xa9)
            .chain(0xb0..=0xb5)
            .chain(0xc0..=0xcb);
        assert_eq!(known, wanted.collect::<Vec<_>>());
    }

    #[test]
    fn levels_are_summed() {
        let plain = array(8, 4, 0, 0x01);
        assert_eq!(mipmapped(&plain, 1), Some(4 * 32));
        assert_eq!(mipmapped(&plain, 3), Some(4 * (32 + 8 + 2)));
        assert_eq!(mipmapped(&plain, 32), Some(4 * (32 + 8 + 2 + 1)));
        let large = array(1 << 40, 1 << 40, 0, 0x01);
        assert_eq!(mipmapped(&large, 32), Some(u64::MAX));
        let solid = array(8, 8, 8, 0x01);
        assert_eq!(mipmapped(&solid, 2), Some(4 * (512 + 64)));
        let layered = CuArray3dDescriptor {
            flags: LAYERED,
            ..solid
        };
        assert_eq!(mipmapped(&layered, 2), Some(4 * (512 + 128)));
    }
}
