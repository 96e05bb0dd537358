//! Arrays, the memory of textures. Their size follows from the descriptor.

use super::formats::{Format, format};
use crate::ffi::{Answer, CuError};
use gpumem_cuda_abi::CuArray3dDescriptor;

/// An array, or all levels of a mipmapped one.
#[derive(Clone, Debug)]
pub struct Array {
    /// The context that it belongs to.
    pub context: usize,
    /// The descriptor that it was created with (for a mipmapped array: of its level 0).
    pub descriptor: CuArray3dDescriptor,
    /// The address of its bytes.
    pub base: u64,
    /// Whether this array owns its bytes (levels and planes do not).
    pub owns: bool,
    /// Handles of the levels, for a mipmapped array.
    pub levels: Vec<usize>,
    /// Handles of the planes that were requested, in order.
    pub planes: Vec<usize>,
}

/// `CUDA_ARRAY3D_LAYERED`.
pub(crate) const LAYERED: u32 = 0x01;
/// `CUDA_ARRAY3D_CUBEMAP`.
pub(crate) const CUBEMAP: u32 = 0x04;
/// `CUDA_ARRAY3D_SPARSE` and `CUDA_ARRAY3D_DEFERRED_MAPPING`.
pub(crate) const SPARSE: u32 = 0x40 | 0x80;

/// The levels of a mipmapped array (one for another array), with their bytes. At most as many as it
/// takes to reach one element.
///
/// # Errors
/// `INVALID_VALUE` for an invalid descriptor.
pub fn levels(
    descriptor: &CuArray3dDescriptor,
    count: u32,
) -> Answer<Vec<(CuArray3dDescriptor, u64)>> {
    let fixed = descriptor.flags & (LAYERED | CUBEMAP) != 0;
    let depth = if fixed { 0 } else { descriptor.depth };
    let largest = descriptor.width.max(descriptor.height).max(depth);
    let count = count.clamp(1, largest.max(1).ilog2() + 1);
    let sized = |level: CuArray3dDescriptor| {
        let bytes = Layout::of(&level).and_then(|layout| layout.bytes());
        Ok((level, bytes.ok_or(CuError::INVALID_VALUE)?))
    };
    (0..count).map(|l| sized(level(descriptor, l))).collect()
}

/// Size and layout of an array, in bytes and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of one element (of a block, in compressed formats).
    pub element: u64,
    /// Bytes of one row.
    pub row: u64,
    /// Rows of one slice.
    pub rows: u64,
    /// Slices (or layers, or faces).
    pub slices: u64,
    /// Bytes after the rows of a slice: the colour planes of planar formats.
    pub colours: u64,
}

impl Layout {
    /// The layout of a descriptor; `None` if it is invalid.
    pub fn of(descriptor: &CuArray3dDescriptor) -> Option<Self> {
        let channels = u64::from(descriptor.num_channels);
        let (width, height) = (descriptor.width as u64, descriptor.height.max(1) as u64);
        if !matches!(channels, 1..=4) || width == 0 {
            return None;
        }
        let (element, columns, rows, colours) = match format(descriptor.format)? {
            Format::Channels(_) if channels == 3 => return None,
            Format::Channels(bytes) => (bytes * channels, width, height, 0),
            Format::Packed(bytes, count) if u64::from(count) == channels => {
                (bytes, width, height, 0)
            }
            Format::Packed(..) => return None,
            Format::Blocks(bytes) => (bytes, width.div_ceil(4), height.div_ceil(4), 0),
            Format::Colours(bytes, across, down) => {
                let groups = width.div_ceil(across).checked_mul(height.div_ceil(down))?;
                (bytes, width, height, groups.checked_mul(2 * bytes)?)
            }
        };
        Some(Self {
            element,
            row: element.checked_mul(columns)?,
            rows,
            slices: descriptor.depth.max(1) as u64,
            colours,
        })
    }

    /// The size of the whole array.
    pub fn bytes(&self) -> Option<u64> {
        let slice = self.row.checked_mul(self.rows)?.checked_add(self.colours)?;
        slice.checked_mul(self.slices)
    }
}

/// The descriptor of a level of a mipmapped array: each extent is halved, but at least one. Layers
/// and faces are not halved.
pub fn level(descriptor: &CuArray3dDescriptor, level: u32) -> CuArray3dDescriptor {
    let half = |extent: usize| {
        if extent == 0 {
            0
        } else {
            (extent >> level).max(1)
        }
    };
    let layered = descriptor.flags & (LAYERED | CUBEMAP) != 0;
    CuArray3dDescriptor {
        width: half(descriptor.width),
        height: half(descriptor.height),
        depth: if layered {
            descriptor.depth
        } else {
            half(descriptor.depth)
        },
        ..*descriptor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOAT: u32 = 0x20;

    fn descriptor(width: usize, height: usize, depth: usize) -> CuArray3dDescriptor {
        CuArray3dDescriptor {
            width,
            height,
            depth,
            format: FLOAT,
            num_channels: 4,
            flags: 0,
        }
    }

    #[test]
    fn bytes_come_from_the_descriptor() {
        let bytes = |w, h, d| Layout::of(&descriptor(w, h, d)).and_then(|l| l.bytes());
        assert_eq!(bytes(10, 0, 0), Some(160));
        assert_eq!(bytes(10, 3, 0), Some(480));
        assert_eq!(bytes(10, 3, 2), Some(960));
        assert_eq!(bytes(0, 3, 2), None);
        assert_eq!(bytes(usize::MAX, 3, 2), None);
    }

    #[test]
    fn formats_have_their_own_bytes() {
        let bytes = |width, height, format, num_channels| {
            let descriptor = CuArray3dDescriptor {
                format,
                num_channels,
                ..descriptor(width, height, 0)
            };
            Layout::of(&descriptor).and_then(|l| l.bytes())
        };
        assert_eq!(bytes(10, 3, 0xc1, 2), Some(60));
        assert_eq!(bytes(10, 3, 0xc1, 1), None);
        assert_eq!(bytes(5, 5, 0x91, 4), Some(4 * 8), "four blocks");
        assert_eq!(bytes(1920, 1080, 0xb0, 3), Some(1920 * 1080 * 3 / 2));
        assert_eq!(bytes(1920, 1080, 0xa4, 3), Some(1920 * 1080 * 4));
        assert_eq!(bytes(3, 3, 0xb0, 3), Some(9 + 2 * 4));
        assert_eq!(bytes(10, 3, FLOAT, 3), None);
        assert_eq!(bytes(10, 3, 0x77, 4), None);
    }

    #[test]
    fn levels_end_at_one_element() {
        let bytes = |descriptor: &CuArray3dDescriptor, count| {
            let levels = levels(descriptor, count);
            levels.map(|levels| {
                levels
                    .iter()
                    .map(|(_, bytes)| *bytes / 16)
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(bytes(&descriptor(8, 4, 0), 0), Ok(vec![32]));
        assert_eq!(bytes(&descriptor(8, 4, 0), 99), Ok(vec![32, 8, 2, 1]));
        assert_eq!(bytes(&descriptor(1, 1, 4), 99), Ok(vec![4, 2, 1]));
        let mut layered = descriptor(1, 1, 4);
        layered.flags = LAYERED;
        assert_eq!(bytes(&layered, 99), Ok(vec![4]));
    }

    #[test]
    fn levels_halve() {
        let top = descriptor(10, 3, 0);
        let second = level(&top, 1);
        assert_eq!((second.width, second.height, second.depth), (5, 1, 0));
        let third = level(&top, 2);
        assert_eq!((third.width, third.height, third.depth), (2, 1, 0));
    }
}
