//! Convolutions of the older API: two algorithms each, one with the modelled workspace and one
//! without a workspace.

use crate::array::{count, put_all};
use crate::handle;
use crate::objects::Objects;
use crate::shape::Shape;
use crate::status::{Done, Status, pointer, require, status};
use crate::tensor::{TENSORS, filter_shape};
use crate::workspace::{Pass, convolution};
use gpumem_sim_client::ffi::{Address, Handle, Out};

/// Convolutions: strides and padding do not change sizes here.
pub static CONVOLUTIONS: Objects<()> = Objects::new();

/// `cudnnConvolution…AlgoPerf_t`: 48 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Performance {
    algorithm: u32,
    status: Status,
    milliseconds: f32,
    workspace: usize,
    /// `CUDNN_DETERMINISTIC` is 1.
    determinism: u32,
    math: u32,
    reserved: [i32; 3],
}

/// The number of the algorithm with a workspace in all three enumerations; that of the one without is 0.
const BEST: u32 = 1;

/// `cudnnSetConvolutionNdDescriptor` and similar functions.
pub fn set(descriptor: Handle) -> Status {
    status(CONVOLUTIONS.set(descriptor, ()))
}

/// The workspace that an algorithm requests.
fn workspace(pass: Pass, x: &Shape, w: &Shape, y: &Shape, algorithm: u32) -> Done<usize> {
    match algorithm {
        0 => Ok(0),
        BEST => Ok(convolution(pass, x, w, y) as usize),
        _ => Err(Status::NOT_SUPPORTED),
    }
}

/// Input, filter and output of a live handle's convolution.
fn shapes(
    handle: Handle,
    x: Handle,
    w: Handle,
    convolution: Handle,
    y: Handle,
) -> Done<[Shape; 3]> {
    handle::stream(handle)?;
    CONVOLUTIONS.get(convolution)?;
    Ok([TENSORS.get(x)?, filter_shape(w)?, TENSORS.get(y)?])
}

/// Writes the algorithms that need at most `room` bytes, best first.
fn rank(
    pass: Pass,
    shapes: &[Shape; 3],
    room: usize,
    wanted: i32,
    told: Out<i32>,
    to: Address,
) -> Done {
    let wanted = count(wanted)?;
    require(wanted > 0 && to != 0, Status::BAD_PARAM)?;
    let [x, w, y] = shapes;
    let mut found = Vec::new();
    for (algorithm, milliseconds) in [(BEST, 1.0), (0, 2.0)] {
        let workspace = workspace(pass, x, w, y, algorithm)?;
        if workspace <= room {
            found.push(Performance {
                algorithm,
                status: Status::SUCCESS,
                milliseconds,
                workspace,
                determinism: 1,
                math: 0,
                reserved: [0; 3],
            });
        }
    }
    found.truncate(wanted);
    pointer(told.put(found.len() as i32))?;
    put_all(to, &found);
    Ok(())
}

/// Makes the functions of one pass that rank algorithms and return sizes. Their parameters are in
/// the pass's order.
macro_rules! passes {
    ($($pass:ident $get:ident $find:ident $size:ident ($first:ident, $second:ident, $third:ident) of $x:ident $w:ident $y:ident;)*) => {$(
        #[doc = concat!("`cudnnGetConvolution…Algorithm_v7`: ", stringify!($pass), ".")]
        #[allow(clippy::too_many_arguments)]
        pub fn $get(
            handle: Handle,
            $first: Handle,
            $second: Handle,
            convolution: Handle,
            $third: Handle,
            wanted: i32,
            told: Out<i32>,
            to: Address,
        ) -> Status {
            let get = || -> Done {
                let shapes = shapes(handle, $x, $w, convolution, $y)?;
                rank(Pass::$pass, &shapes, usize::MAX, wanted, told, to)
            };
            status(get())
        }

        #[doc = concat!("`cudnnFindConvolution…AlgorithmEx`: ", stringify!($pass), ".")]
        #[allow(clippy::too_many_arguments)]
        pub fn $find(
            handle: Handle,
            $first: Handle,
            _first: Address,
            $second: Handle,
            _second: Address,
            convolution: Handle,
            $third: Handle,
            _third: Address,
            wanted: i32,
            told: Out<i32>,
            to: Address,
            _workspace: Address,
            room: usize,
        ) -> Status {
            let find = || -> Done {
                let shapes = shapes(handle, $x, $w, convolution, $y)?;
                rank(Pass::$pass, &shapes, room, wanted, told, to)
            };
            status(find())
        }

        #[doc = concat!("`cudnnGetConvolution…WorkspaceSize`: ", stringify!($pass), ".")]
        pub fn $size(
            handle: Handle,
            $first: Handle,
            $second: Handle,
            convolution: Handle,
            $third: Handle,
            algorithm: u32,
            bytes: Out<usize>,
        ) -> Status {
            let size = || -> Done {
                let [x, w, y] = shapes(handle, $x, $w, convolution, $y)?;
                pointer(bytes.put(workspace(Pass::$pass, &x, &w, &y, algorithm)?))
            };
            status(size())
        }
    )*};
}

passes! {
    Forward get_forward find_forward size_forward (x, w, y) of x w y;
    Data get_data find_data size_data (w, y, x) of x w y;
    Filter get_filter find_filter size_filter (x, y, w) of x w y;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_cudnns_size() {
        assert_eq!(size_of::<Performance>(), 48);
    }

    #[test]
    fn only_algorithms_that_fit_are_ranked() {
        let shape = |extents: &[i64]| Shape {
            extents: extents.to_vec(),
            strides: vec![9; 4],
            ..Shape::default()
        };
        let shapes = [
            shape(&[1, 2, 4, 4]),
            shape(&[2, 2, 1, 1]),
            shape(&[1, 2, 4, 4]),
        ];
        let needed = 4 * (32 + 4 + 32);
        for (room, wanted, expected) in [
            (needed, 3, vec![1, 0]),
            (needed - 1, 3, vec![0]),
            (needed, 1, vec![1]),
        ] {
            let empty = Performance {
                algorithm: 99,
                status: Status::SUCCESS,
                milliseconds: 0.0,
                workspace: 0,
                determinism: 0,
                math: 0,
                reserved: [0; 3],
            };
            let (mut found, mut told) = ([empty; 3], 0);
            let to = found.as_mut_ptr() as Address;
            let ranked = rank(Pass::Forward, &shapes, room, wanted, Out::to(&mut told), to);
            assert_eq!(ranked, Ok(()));
            let algorithms: Vec<u32> = found[..told as usize]
                .iter()
                .map(|row| row.algorithm)
                .collect();
            assert_eq!(algorithms, expected);
        }
        let bad = rank(Pass::Data, &shapes, 0, -1, Out::NOWHERE, 0);
        assert_eq!(bad, Err(Status::BAD_PARAM));
    }
}
