//! Arrays of callers. They are read and written only after their counts have been checked.

use crate::status::{Done, Status};
use gpumem_sim_client::ffi::{Address, Out};

/// The longest array of a caller. A larger count is an error.
pub const MOST: usize = 1 << 16;

/// Types for which every bit pattern is a valid value.
pub trait Plain: Copy {}

impl Plain for u8 {}
impl Plain for i32 {}
impl Plain for i64 {}
impl Plain for usize {}

/// Converts a caller's count.
///
/// # Errors
/// `BAD_PARAM` for less than 0 and for more than [`MOST`].
pub fn count(given: impl TryInto<usize>) -> Done<usize> {
    let count = given.try_into().map_err(|_| Status::BAD_PARAM)?;
    if count > MOST {
        return Err(Status::BAD_PARAM);
    }
    Ok(count)
}

/// A copy of `count` values.
///
/// # Errors
/// `BAD_PARAM` for a missing array.
pub fn read<T: Plain>(from: Address, count: usize) -> Done<Vec<T>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if from == 0 {
        return Err(Status::BAD_PARAM);
    }
    let place = from as *const T;
    // SAFETY: the C caller guarantees `count` values; they are copied at once, aligned or not.
    let values = (0..count).map(|index| unsafe { place.add(index).read_unaligned() });
    Ok(values.collect())
}

/// Writes the values, unless the pointer is null.
pub fn write<T: Plain>(to: Address, values: &[T]) {
    if to == 0 {
        return;
    }
    for (index, value) in values.iter().enumerate() {
        // SAFETY: the C caller guarantees room for the requested number of values, and no more are
        // written.
        unsafe { (to as *mut T).add(index).write_unaligned(*value) };
    }
}

/// Writes structures, unless the pointer is null.
pub fn put_all<T: Copy>(to: Address, values: &[T]) {
    for (index, value) in values.iter().enumerate().filter(|_| to != 0) {
        Out::at(to + index * size_of::<T>()).put_if_asked(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_counts_are_refused_before_anything_is_read() {
        assert_eq!(count(-1_i64), Err(Status::BAD_PARAM));
        assert_eq!(count(i64::MAX), Err(Status::BAD_PARAM));
        assert_eq!(count(3_i32), Ok(3));
        assert_eq!(read::<i32>(0, 1), Err(Status::BAD_PARAM));
        assert_eq!(read::<i32>(0, 0), Ok(vec![]));
    }

    #[test]
    fn arrays_are_copied() {
        let values = [1_i64, 2, 3];
        assert_eq!(read::<i64>(values.as_ptr() as Address, 2), Ok(vec![1, 2]));
        let mut place = [0_i32; 3];
        write(place.as_mut_ptr() as Address, &[7, 8]);
        write(0, &[7]);
        assert_eq!(place, [7, 8, 0]);
    }
}
