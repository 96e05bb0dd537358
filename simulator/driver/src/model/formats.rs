//! Formats of array elements: every `CUarray_format` of CUDA 13.5's header.

/// The memory layout of a format's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Separate channels: bytes of one channel.
    Channels(u64),
    /// All channels of an element together: their bytes, and the number of channels.
    Packed(u64, u32),
    /// Blocks of 4 × 4 elements: bytes of a block.
    Blocks(u64),
    /// A luma sample for each element, and two chroma samples for a group of elements: bytes of a
    /// sample, columns and rows of a group.
    Colours(u64, u64, u64),
}

/// The format with this number, if CUDA defines it.
pub fn format(number: u32) -> Option<Format> {
    use Format::{Blocks, Channels, Colours, Packed};
    Some(match number {
        0x01 | 0x08 => Channels(1),              // UNSIGNED_INT8, SIGNED_INT8
        0x02 | 0x09 | 0x10 => Channels(2),       // …_INT16, HALF
        0x03 | 0x0a | 0x20 => Channels(4),       // …_INT32, FLOAT
        0xc0 | 0xc6 => Packed(1, 1),             // UNORM_INT8X1, SNORM_INT8X1
        0xc1 | 0xc7 => Packed(2, 2),             // …_INT8X2
        0xc2 | 0xc8 => Packed(4, 4),             // …_INT8X4
        0xc3 | 0xc9 => Packed(2, 1),             // …_INT16X1
        0xc4 | 0xca => Packed(4, 2),             // …_INT16X2
        0xc5 | 0xcb => Packed(8, 4),             // …_INT16X4
        0x50 => Packed(4, 4),                    // UNORM_INT_101010_2
        0x91 | 0x92 | 0x97 | 0x98 => Blocks(8),  // BC1, BC4
        0x93..=0x96 | 0x99..=0x9e => Blocks(16), // BC2, BC3, BC5, BC6H, BC7
        0xb0 | 0x53 | 0x59 => Colours(1, 2, 2),  // NV12, UINT8_…PLANAR_420
        0x9f | 0xa1 | 0x54 | 0x5a => Colours(2, 2, 2), // P010, P016, UINT16_…PLANAR_420
        0xa2 | 0x55 | 0x5b => Colours(1, 2, 1),  // NV16, UINT8_…PLANAR_422
        0xa3 | 0xa4 | 0x56 | 0x5c => Colours(2, 2, 1), // P210, P216, UINT16_…PLANAR_422
        0xa5 | 0x51 => Colours(1, 2, 1),         // YUY2, UINT8_PACKED_422
        0xa6 | 0xa7 => Colours(2, 2, 1),         // Y210, Y216
        0xa8 | 0xa9 | 0x52 => Packed(4, 4),      // AYUV, Y410, UINT8_PACKED_444
        0xb1 => Packed(8, 4),                    // Y416
        0xb2 | 0xb4 | 0x57 | 0x5d => Colours(1, 1, 1), // …444 of 8 bits
        0xb3 | 0xb5 | 0x58 | 0x5e => Colours(2, 1, 1), // …444 of 10 and 16 bits
        _ => return None,
    })
}

/// One plane of a planar format: the number of the plane's format, its channels, and the number of
/// columns and rows of elements that one of its elements covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plane {
    /// `CUarray_format`.
    pub format: u32,
    /// Channels.
    pub channels: u32,
    /// Columns that one element covers.
    pub across: u64,
    /// Rows that one element covers.
    pub down: u64,
}

/// The planes of a format; an empty list for one whose elements are not in planes.
pub fn planes(number: u32) -> Vec<Plane> {
    let Some(Format::Colours(sample, across, down)) = format(number) else {
        return Vec::new();
    };
    // UNSIGNED_INT8 and UNSIGNED_INT16.
    let format = if sample == 1 { 0x01 } else { 0x02 };
    let plane = |channels, across, down| Plane {
        format,
        channels,
        across,
        down,
    };
    let colours = match number {
        // YUY2, Y210, Y216, UINT8_PACKED_422.
        0xa5..=0xa7 | 0x51 => return Vec::new(),
        // Y444_PLANAR…, …_PLANAR_….
        0xb2 | 0xb3 | 0x59..=0x5e => vec![plane(1, across, down); 2],
        _ => vec![plane(2, across, down)],
    };
    let brightness = plane(1, 1, 1);
    std::iter::once(brightness).chain(colours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_of_the_header_is_there() {
        let known = (0..=0xff).filter(|number| format(*number).is_some());
        assert_eq!(known.count(), 65);
    }

    #[test]
    fn planes_make_up_their_format() {
        let divided = (0..=0xff).filter(|number| !planes(*number).is_empty());
        let mut seen = 0;
        for number in divided {
            let Some(Format::Colours(sample, across, down)) = format(number) else {
                panic!("{number:#x}");
            };
            let bytes = |plane: &Plane| {
                u64::from(plane.channels) * sample * (16 / plane.across) * (16 / plane.down)
            };
            let sum: u64 = planes(number).iter().map(bytes).sum();
            assert_eq!(
                sum,
                sample * (256 + 2 * 256 / (across * down)),
                "{number:#x}"
            );
            seen += 1;
        }
        assert_eq!(seen, 22);
    }
}
