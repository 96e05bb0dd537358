//! Tensor and filter descriptors of the older API.

use crate::array::{read, write};
use crate::objects::Objects;
use crate::shape::{DataType, MOST_DIMENSIONS, Shape};
use crate::status::{Done, Status, pointer, require, status};
use gpumem_sim_client::ffi::{Address, Handle, Out};

/// A filter: a shape with its `cudnnTensorFormat_t`.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    shape: Shape,
    format: u32,
}

/// All tensors.
pub static TENSORS: Objects<Shape> = Objects::new();

/// All filters.
pub static FILTERS: Objects<Filter> = Objects::new();

/// `CUDNN_TENSOR_NHWC`.
const NHWC: u32 = 1;

/// Extents from a caller: 1 to 8, each at least 1.
fn extents(dimensions: i32, from: Address) -> Done<Vec<i64>> {
    require(dimensions >= 1, Status::BAD_PARAM)?;
    let dimensions = dimensions as usize;
    require(dimensions <= MOST_DIMENSIONS, Status::NOT_SUPPORTED)?;
    let extents = read::<i32>(from, dimensions)?;
    require(extents.iter().all(|extent| *extent >= 1), Status::BAD_PARAM)?;
    Ok(extents.into_iter().map(i64::from).collect())
}

/// Strides of a packed tensor.
fn packed(extents: &[i64], format: u32) -> Vec<i64> {
    let mut order: Vec<usize> = (0..extents.len()).collect();
    if format == NHWC && extents.len() > 2 {
        let channels = order.remove(1);
        order.push(channels);
    }
    let (mut strides, mut next) = (vec![1; extents.len()], 1_i64);
    for dimension in order.into_iter().rev() {
        strides[dimension] = next;
        next = next.saturating_mul(extents[dimension]);
    }
    strides
}

/// `cudnnSetTensorNdDescriptor`.
pub fn set(tensor: Handle, kind: u32, dimensions: i32, from: Address, strides: Address) -> Status {
    let set = || -> Done {
        let kind = DataType(kind);
        kind.bits()?;
        let extents = extents(dimensions, from)?;
        let strides = read::<i32>(strides, extents.len())?;
        let strides = strides.into_iter().map(i64::from).collect();
        TENSORS.set(
            tensor,
            Shape {
                kind,
                extents,
                strides,
            },
        )
    };
    status(set())
}

/// `cudnnSetTensorNdDescriptorEx`.
pub fn set_packed(
    tensor: Handle,
    format: u32,
    kind: u32,
    dimensions: i32,
    from: Address,
) -> Status {
    let set = || -> Done {
        let kind = DataType(kind);
        kind.bits()?;
        let extents = extents(dimensions, from)?;
        let strides = packed(&extents, format);
        TENSORS.set(
            tensor,
            Shape {
                kind,
                extents,
                strides,
            },
        )
    };
    status(set())
}

/// `cudnnSetTensor4dDescriptor`.
pub fn set_4d(tensor: Handle, format: u32, kind: u32, n: i32, c: i32, h: i32, w: i32) -> Status {
    let extents = [n, c, h, w];
    set_packed(tensor, format, kind, 4, extents.as_ptr() as Address)
}

/// `cudnnSetTensor4dDescriptorEx`.
#[allow(clippy::too_many_arguments)]
pub fn set_4d_strided(
    tensor: Handle,
    kind: u32,
    n: i32,
    c: i32,
    h: i32,
    w: i32,
    n_stride: i32,
    c_stride: i32,
    h_stride: i32,
    w_stride: i32,
) -> Status {
    let extents = [n, c, h, w];
    let strides = [n_stride, c_stride, h_stride, w_stride];
    set(
        tensor,
        kind,
        4,
        extents.as_ptr() as Address,
        strides.as_ptr() as Address,
    )
}

/// The first numbers, up to the requested count, as C integers.
fn first(numbers: &[i64], wanted: i32) -> Vec<i32> {
    let wanted = usize::try_from(wanted).unwrap_or(0);
    numbers
        .iter()
        .take(wanted)
        .map(|number| *number as i32)
        .collect()
}

/// `cudnnGetTensorNdDescriptor`: an unset descriptor has no dimensions.
pub fn get(
    tensor: Handle,
    wanted: i32,
    kind: Out<u32>,
    dimensions: Out<i32>,
    extents: Address,
    strides: Address,
) -> Status {
    let get = || -> Done {
        let shape = TENSORS.get(tensor)?;
        pointer(kind.put(shape.kind.0))?;
        pointer(dimensions.put(shape.extents.len() as i32))?;
        write(extents, &first(&shape.extents, wanted));
        write(strides, &first(&shape.strides, wanted));
        Ok(())
    };
    status(get())
}

/// `cudnnGetTensorSizeInBytes`: up to the end of the last element, by the strides.
pub fn size(tensor: Handle, bytes: Out<usize>) -> Status {
    let size = || -> Done {
        let shape = TENSORS.get(tensor)?;
        let reach =
            shape
                .extents
                .iter()
                .zip(&shape.strides)
                .fold(1_u128, |reach, (extent, stride)| {
                    reach.saturating_add(
                        (*extent as u128 - 1).saturating_mul((*stride).max(0) as u128),
                    )
                });
        let elements = if shape.extents.is_empty() { 0 } else { reach };
        pointer(bytes.put(shape.kind.bytes(elements) as usize))
    };
    status(size())
}

/// `cudnnSetFilterNdDescriptor`.
pub fn set_filter(
    filter: Handle,
    kind: u32,
    format: u32,
    dimensions: i32,
    from: Address,
) -> Status {
    let set = || -> Done {
        let kind = DataType(kind);
        kind.bits()?;
        let extents = extents(dimensions, from)?;
        let strides = packed(&extents, format);
        let shape = Shape {
            kind,
            extents,
            strides,
        };
        FILTERS.set(filter, Filter { shape, format })
    };
    status(set())
}

/// `cudnnSetFilter4dDescriptor`.
pub fn set_filter_4d(
    filter: Handle,
    kind: u32,
    format: u32,
    k: i32,
    c: i32,
    h: i32,
    w: i32,
) -> Status {
    let extents = [k, c, h, w];
    set_filter(filter, kind, format, 4, extents.as_ptr() as Address)
}

/// `cudnnGetFilterNdDescriptor`.
pub fn get_filter(
    filter: Handle,
    wanted: i32,
    kind: Out<u32>,
    format: Out<u32>,
    dimensions: Out<i32>,
    extents: Address,
) -> Status {
    let get = || -> Done {
        let found = FILTERS.get(filter)?;
        pointer(kind.put(found.shape.kind.0))?;
        pointer(format.put(found.format))?;
        pointer(dimensions.put(found.shape.extents.len() as i32))?;
        write(extents, &first(&found.shape.extents, wanted));
        Ok(())
    };
    status(get())
}

/// The shape of a filter.
///
/// # Errors
/// `BAD_PARAM` if the handle is unknown.
pub fn filter_shape(filter: Handle) -> Done<Shape> {
    Ok(FILTERS.get(filter)?.shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place<T>(values: &[T]) -> Address {
        values.as_ptr() as Address
    }

    #[test]
    fn tensors_remember_what_was_set() {
        let (mut tensor, mut kind, mut dimensions) = (0, 9, 9);
        assert_eq!(TENSORS.create(Out::to(&mut tensor)), Status::SUCCESS);
        let ask = |wanted, kind: &mut u32, dimensions: &mut i32, extents: &mut [i32; 4]| {
            let to = extents.as_mut_ptr() as Address;
            get(tensor, wanted, Out::to(kind), Out::to(dimensions), to, 0)
        };
        let mut extents = [0; 4];
        assert_eq!(
            ask(4, &mut kind, &mut dimensions, &mut extents),
            Status::SUCCESS
        );
        assert_eq!((kind, dimensions), (0, 0));
        let set_to = set(tensor, 2, 4, place(&[2, 3, 4, 5]), place(&[60, 20, 5, 1]));
        assert_eq!(set_to, Status::SUCCESS);
        assert_eq!(
            ask(2, &mut kind, &mut dimensions, &mut extents),
            Status::SUCCESS
        );
        assert_eq!((kind, dimensions, extents), (2, 4, [2, 3, 0, 0]));
        assert_eq!(
            ask(-1, &mut kind, &mut dimensions, &mut extents),
            Status::SUCCESS
        );
        let mut bytes = 0;
        assert_eq!(size(tensor, Out::to(&mut bytes)), Status::SUCCESS);
        assert_eq!(bytes, 2 * 3 * 4 * 5 * 2);
    }

    #[test]
    fn senseless_shapes_are_refused() {
        let mut tensor = 0;
        assert_eq!(TENSORS.create(Out::to(&mut tensor)), Status::SUCCESS);
        let four = [1, 2, 3, 4];
        let ask = |kind, dimensions, from| set(tensor, kind, dimensions, from, place(&four));
        assert_eq!(ask(99, 4, place(&four)), Status::BAD_PARAM);
        assert_eq!(ask(0, 9, place(&four)), Status::NOT_SUPPORTED);
        assert_eq!(ask(0, i32::MAX, place(&four)), Status::NOT_SUPPORTED);
        assert_eq!(ask(0, 0, place(&four)), Status::BAD_PARAM);
        assert_eq!(ask(0, 4, 0), Status::BAD_PARAM);
        assert_eq!(ask(0, 4, place(&[1, 0, 3, 4])), Status::BAD_PARAM);
        assert_eq!(set(0, 0, 4, place(&four), place(&four)), Status::BAD_PARAM);
        // A filter is not a tensor.
        let mut filter = 0;
        assert_eq!(FILTERS.create(Out::to(&mut filter)), Status::SUCCESS);
        assert_eq!(
            set(filter, 0, 4, place(&four), place(&four)),
            Status::BAD_PARAM
        );
    }

    #[test]
    fn packed_strides_follow_the_format() {
        assert_eq!(packed(&[2, 3, 4, 5], 0), [60, 20, 5, 1]);
        assert_eq!(packed(&[2, 3, 4, 5], NHWC), [60, 1, 15, 3]);
        assert_eq!(packed(&[7], NHWC), [1]);
    }
}
