//! Copies of vectors and matrices between host and device.

use gpumem_sim_client::blas::Status;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, In};
use gpumem_sim_client::structures::{Memcpy2d, Side2d};

const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// One side of a copy: its address, and the distance of its rows in bytes.
#[derive(Clone, Copy, Debug)]
struct Side {
    address: Address,
    pitch: usize,
}

impl Side {
    fn host(self) -> Side2d {
        Side2d {
            kind: HOST,
            host: self.address,
            pitch: self.pitch,
            ..Side2d::default()
        }
    }

    fn device(self) -> Side2d {
        Side2d {
            kind: DEVICE,
            device: self.address,
            pitch: self.pitch,
            ..Side2d::default()
        }
    }
}

/// Sizes from C: none may be negative.
fn sizes<const N: usize>(numbers: [i64; N]) -> Option<[usize; N]> {
    let mut sizes = [0; N];
    for (size, number) in sizes.iter_mut().zip(numbers) {
        *size = usize::try_from(number).ok()?;
    }
    Some(sizes)
}

fn run(from: Side2d, to: Side2d, width_bytes: usize, height: usize, on: Option<Handle>) -> Status {
    if width_bytes == 0 || height == 0 {
        return Status::SUCCESS;
    }
    let copy = Memcpy2d {
        from,
        to,
        width_bytes,
        height,
    };
    let done = match on {
        Some(stream) => cu::cuMemcpy2DAsync(In::of(&copy), stream),
        None => cu::cuMemcpy2DUnaligned(In::of(&copy)),
    };
    match done {
        Ok(()) => Status::SUCCESS,
        Err(_) => Status::MAPPING_ERROR,
    }
}

/// Width, height and both sides of a matrix copy, whose rows are the matrix's columns. A vector is
/// a matrix of one row: its elements are the columns.
fn shape(
    rows: i64,
    columns: i64,
    element: i64,
    from: (Address, i64),
    to: (Address, i64),
) -> Option<(usize, usize, Side, Side)> {
    let [rows, columns, element, from_step, to_step] =
        sizes([rows, columns, element, from.1, to.1])?;
    let side = |address: Address, step: usize| Side {
        address,
        pitch: step * element,
    };
    let (from, to) = (side(from.0, from_step), side(to.0, to_step));
    (element > 0).then_some((rows * element, columns, from, to))
}

macro_rules! copies {
    ($($(#[$doc:meta])* $name:ident $from:ident $to:ident ($($stream:ident)?);)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        pub fn $name(
            rows: i64,
            columns: i64,
            element: i64,
            from: Address,
            from_step: i64,
            to: Address,
            to_step: i64,
            $($stream: Handle,)?
        ) -> Status {
            match shape(rows, columns, element, (from, from_step), (to, to_step)) {
                Some((width, height, from, to)) => {
                    let on = copies!(@on $($stream)?);
                    run(from.$from(), to.$to(), width, height, on)
                }
                None => Status::INVALID_VALUE,
            }
        }
    )*};
    (@on) => { None };
    (@on $stream:ident) => { Some($stream) };
}

copies! {
    /// `cublasSetMatrix`.
    set_matrix host device ();
    /// `cublasGetMatrix`.
    get_matrix device host ();
    /// `cublasSetMatrixAsync`.
    set_matrix_async host device (stream);
    /// `cublasGetMatrixAsync`.
    get_matrix_async device host (stream);
}

/// `cublasSetVector`.
pub fn set_vector(n: i64, element: i64, from: Address, step: i64, to: Address, by: i64) -> Status {
    set_matrix(1, n, element, from, step, to, by)
}

/// `cublasGetVector`.
pub fn get_vector(n: i64, element: i64, from: Address, step: i64, to: Address, by: i64) -> Status {
    get_matrix(1, n, element, from, step, to, by)
}

/// `cublasSetVectorAsync`.
pub fn set_vector_async(
    n: i64,
    element: i64,
    from: Address,
    from_step: i64,
    to: Address,
    to_step: i64,
    stream: Handle,
) -> Status {
    set_matrix_async(1, n, element, from, from_step, to, to_step, stream)
}

/// `cublasGetVectorAsync`.
pub fn get_vector_async(
    n: i64,
    element: i64,
    from: Address,
    from_step: i64,
    to: Address,
    to_step: i64,
    stream: Handle,
) -> Status {
    get_matrix_async(1, n, element, from, from_step, to, to_step, stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_a_matrix_of_one_row() {
        let (width, height, from, to) = shape(1, 10, 4, (64, 1), (128, 3)).unwrap();
        assert_eq!((width, height, from.pitch, to.pitch), (4, 10, 4, 12));
        assert!(shape(-1, 10, 4, (0, 1), (0, 1)).is_none());
        assert!(shape(1, 10, 0, (0, 1), (0, 1)).is_none());
    }
}
