//! Arrays: textures' memory, with their bytes taken from the descriptor.

use gpumem_cuda_abi::CuArray3dDescriptor;

/// An array, or all levels of a mipmapped one.
#[derive(Clone, Debug)]
pub struct Array {
    /// The context that it belongs to.
    pub context: usize,
    /// What it was made with (of a mipmapped array: its level 0).
    pub descriptor: CuArray3dDescriptor,
    /// Where its bytes lie.
    pub base: u64,
    /// Whether this array owns its bytes (a level of a mipmapped array does not).
    pub owns: bool,
    /// Handles of the levels, of a mipmapped array.
    pub levels: Vec<usize>,
}

/// Bytes of one channel of a `CUarray_format`, if the format is known.
pub fn channel_bytes(format: u32) -> Option<u64> {
    match format {
        0x01 | 0x08 => Some(1),
        0x02 | 0x09 | 0x10 => Some(2),
        0x03 | 0x0a | 0x20 => Some(4),
        _ => None,
    }
}

/// Size and layout of an array, in bytes and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of one element.
    pub element: u64,
    /// Bytes of one row.
    pub row: u64,
    /// Rows of one slice.
    pub rows: u64,
    /// Slices (or layers, or faces).
    pub slices: u64,
}

impl Layout {
    /// The layout of a descriptor; `None` if it describes nothing that can be.
    pub fn of(descriptor: &CuArray3dDescriptor) -> Option<Self> {
        let channels = u64::from(descriptor.num_channels);
        if !matches!(channels, 1 | 2 | 4) || descriptor.width == 0 {
            return None;
        }
        let element = channel_bytes(descriptor.format)? * channels;
        Some(Self {
            element,
            row: element.checked_mul(descriptor.width as u64)?,
            rows: descriptor.height.max(1) as u64,
            slices: descriptor.depth.max(1) as u64,
        })
    }

    /// All of it.
    pub fn bytes(&self) -> Option<u64> {
        self.row.checked_mul(self.rows)?.checked_mul(self.slices)
    }
}

/// The descriptor of a level of a mipmapped array: each extent halved, never below one. Layers
/// (flag 1) are not halved.
pub fn level(descriptor: &CuArray3dDescriptor, level: u32) -> CuArray3dDescriptor {
    let half = |extent: usize| {
        if extent == 0 {
            0
        } else {
            (extent >> level).max(1)
        }
    };
    let layered = descriptor.flags & 1 != 0;
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
    fn levels_halve() {
        let top = descriptor(10, 3, 0);
        let second = level(&top, 1);
        assert_eq!((second.width, second.height, second.depth), (5, 1, 0));
        let third = level(&top, 2);
        assert_eq!((third.width, third.height, third.depth), (2, 1, 0));
    }
}
