//! Extents, strides and bytes of a tensor or filter.

use crate::status::{Done, Status};

/// `cudnnDataType_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataType(pub u32);

impl DataType {
    /// Bits of an element.
    ///
    /// # Errors
    /// `BAD_PARAM` for a number that cuDNN 9.26 does not have.
    pub fn bits(self) -> Done<u64> {
        Ok(match self.0 {
            0 | 4 | 5 | 7 | 14 | 19 => 32,
            1 | 10 | 20 => 64,
            2 | 9 => 16,
            3 | 6 | 11..=13 | 15 | 22 | 23 => 8,
            8 => 256,
            16..=18 => 4,
            21 => 128,
            _ => return Err(Status::BAD_PARAM),
        })
    }

    /// Whether RNNs support it: float, double, half, bfloat16.
    pub fn is_floating(self) -> bool {
        matches!(self.0, 0..=2 | 9)
    }

    /// Bytes of the elements, saturating.
    pub fn bytes(self, elements: u128) -> u64 {
        let bits = u128::from(self.bits().unwrap_or(0));
        u64::try_from(elements.saturating_mul(bits).div_ceil(8)).unwrap_or(u64::MAX)
    }
}

/// `CUDNN_DIM_MAX`.
pub const MOST_DIMENSIONS: usize = 8;

/// A tensor's shape. A descriptor without dimensions has not been set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Type of the elements.
    pub kind: DataType,
    /// Batch, channels, then space.
    pub extents: Vec<i64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
}

impl Shape {
    /// Bytes of the elements, packed.
    pub fn bytes(&self) -> u64 {
        if self.extents.is_empty() {
            return 0;
        }
        let elements = self.extents.iter().map(|extent| (*extent).max(0) as u128);
        self.kind.bytes(elements.fold(1, u128::saturating_mul))
    }

    /// Whether channels are the innermost dimension (NHWC and similar layouts).
    pub fn is_channels_last(&self) -> bool {
        self.extents.len() > 2 && self.strides.get(1) == Some(&1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(kind: u32, extents: &[i64], strides: &[i64]) -> Shape {
        Shape {
            kind: DataType(kind),
            extents: extents.to_vec(),
            strides: strides.to_vec(),
        }
    }

    #[test]
    fn bytes_are_of_all_elements() {
        assert_eq!(shape(2, &[2, 3, 4], &[12, 4, 1]).bytes(), 48);
        assert_eq!(
            shape(16, &[3], &[1]).bytes(),
            2,
            "half bytes are rounded up"
        );
        assert_eq!(shape(1, &[i64::MAX; 8], &[1; 8]).bytes(), u64::MAX);
        assert_eq!(shape(0, &[-4, 3], &[1, 1]).bytes(), 0);
        assert_eq!(Shape::default().bytes(), 0);
        assert_eq!(DataType(24).bits(), Err(Status::BAD_PARAM));
    }

    #[test]
    fn layouts_are_told_apart_by_the_stride_of_channels() {
        assert!(shape(0, &[2, 8, 4, 4], &[128, 1, 32, 8]).is_channels_last());
        assert!(!shape(0, &[2, 8, 4, 4], &[128, 16, 4, 1]).is_channels_last());
        assert!(!shape(0, &[2, 1], &[1, 1]).is_channels_last());
    }
}
