//! Functions that describe a transform, converted to one [`Shape`].

use crate::plan::{self, FftResult, put, result};
use crate::work_area::Shape;
use gpumem_sim_client::ffi::{Address, In, Out};
use gpumem_sim_client::release;

/// The version, as three numbers: 12.2.0, which PyTorch 2.15 brings, or 11.3.3, which 2.9 brings
/// for CUDA 12.
fn numbers() -> [i32; 3] {
    release::of([11, 3, 3], [12, 2, 0])
}

/// Bytes of a complex element, and whether one side is real.
type Kind = (u64, bool);

/// `cufftType`: `R2C`, `C2R`, `C2C` of single and double precision.
fn kind(number: u32) -> Result<Kind, FftResult> {
    match number {
        0x2a | 0x2c => Ok((8, true)),
        0x29 => Ok((8, false)),
        0x6a | 0x6c => Ok((16, true)),
        0x69 => Ok((16, false)),
        _ => Err(FftResult::INVALID_TYPE),
    }
}

/// The kind of a transform between two `cudaDataType`s, executed in a third, complex one.
fn kind_of_types(input: u32, output: u32, execution: u32) -> Result<Kind, FftResult> {
    const COMPLEX: [u32; 4] = [4, 5, 6, 15];
    let bytes = match execution {
        4 => 8,
        5 => 16,
        6 | 15 => 4,
        _ => return Err(FftResult::INVALID_TYPE),
    };
    Ok((
        bytes,
        !(COMPLEX.contains(&input) && COMPLEX.contains(&output)),
    ))
}

fn shape(lengths: Vec<i64>, kind: Kind, batch: i64) -> Result<Shape, FftResult> {
    let positive = |n: i64| u64::try_from(n).ok().filter(|n| *n > 0);
    let lengths = lengths
        .into_iter()
        .map(positive)
        .collect::<Option<Vec<_>>>();
    let (element_bytes, real) = kind;
    Ok(Shape {
        lengths: lengths.ok_or(FftResult::INVALID_SIZE)?,
        batch: positive(batch).ok_or(FftResult::INVALID_SIZE)?,
        element_bytes,
        real,
    })
}

/// The lengths of a transform of one to three dimensions.
fn lengths<T: Copy + Into<i64>>(rank: i32, first: In<T>) -> Result<Vec<i64>, FftResult> {
    if first.is_null() || !(1..=3).contains(&rank) {
        return Err(FftResult::INVALID_VALUE);
    }
    let all = (0..rank).map(|place| Ok(first.nth(place as usize)?.into()));
    let all = all.collect::<Result<Vec<i64>, gpumem_cuda_abi::CudaError>>();
    all.map_err(|_| FftResult::INVALID_VALUE)
}

/// Makes a plan of a shape, or returns its size.
fn make(plan: i32, shape: Result<Shape, FftResult>, size: Out<usize>) -> FftResult {
    match shape {
        Ok(shape) => plan::make(plan, &shape, size),
        Err(result) => result,
    }
}

fn tell(shape: Result<Shape, FftResult>, size: Out<usize>) -> FftResult {
    result(shape.and_then(|shape| put(size, plan::size(&shape)?)))
}

/// Creates and makes a plan in one step.
fn plan_of(place: Out<i32>, shape: Result<Shape, FftResult>) -> FftResult {
    let created = plan::create(place);
    if created != FftResult::SUCCESS {
        return created;
    }
    let Ok(plan) = place.get() else {
        return FftResult::INVALID_VALUE;
    };
    let made = make(plan, shape, Out::NOWHERE);
    if made != FftResult::SUCCESS {
        let _ = plan::destroy(plan);
    }
    made
}

fn cube(sides: &[i32], number: u32, batch: i32) -> Result<Shape, FftResult> {
    let sides = sides.iter().map(|side| i64::from(*side)).collect();
    shape(sides, kind(number)?, batch.into())
}

/// `cufftPlan1d`.
pub fn plan_1d(place: Out<i32>, x: i32, number: u32, batch: i32) -> FftResult {
    plan_of(place, cube(&[x], number, batch))
}

/// `cufftPlan2d`.
pub fn plan_2d(place: Out<i32>, x: i32, y: i32, number: u32) -> FftResult {
    plan_of(place, cube(&[x, y], number, 1))
}

/// `cufftPlan3d`.
pub fn plan_3d(place: Out<i32>, x: i32, y: i32, z: i32, number: u32) -> FftResult {
    plan_of(place, cube(&[x, y, z], number, 1))
}

/// `cufftMakePlan1d`.
pub fn make_1d(plan: i32, x: i32, number: u32, batch: i32, size: Out<usize>) -> FftResult {
    make(plan, cube(&[x], number, batch), size)
}

/// `cufftMakePlan2d`.
pub fn make_2d(plan: i32, x: i32, y: i32, number: u32, size: Out<usize>) -> FftResult {
    make(plan, cube(&[x, y], number, 1), size)
}

/// `cufftMakePlan3d`.
pub fn make_3d(plan: i32, x: i32, y: i32, z: i32, number: u32, size: Out<usize>) -> FftResult {
    make(plan, cube(&[x, y, z], number, 1), size)
}

/// `cufftGetSize1d`.
pub fn size_1d(_plan: i32, x: i32, number: u32, batch: i32, size: Out<usize>) -> FftResult {
    tell(cube(&[x], number, batch), size)
}

/// `cufftGetSize2d`.
pub fn size_2d(_plan: i32, x: i32, y: i32, number: u32, size: Out<usize>) -> FftResult {
    tell(cube(&[x, y], number, 1), size)
}

/// `cufftGetSize3d`.
pub fn size_3d(_plan: i32, x: i32, y: i32, z: i32, number: u32, size: Out<usize>) -> FftResult {
    tell(cube(&[x, y, z], number, 1), size)
}

/// `cufftEstimate1d`.
pub fn estimate_1d(x: i32, number: u32, batch: i32, size: Out<usize>) -> FftResult {
    tell(cube(&[x], number, batch), size)
}

/// `cufftEstimate2d`.
pub fn estimate_2d(x: i32, y: i32, number: u32, size: Out<usize>) -> FftResult {
    tell(cube(&[x, y], number, 1), size)
}

/// `cufftEstimate3d`.
pub fn estimate_3d(x: i32, y: i32, z: i32, number: u32, size: Out<usize>) -> FftResult {
    tell(cube(&[x, y, z], number, 1), size)
}

fn many<T: Copy + Into<i64>>(
    rank: i32,
    first: In<T>,
    number: u32,
    batch: i64,
) -> Result<Shape, FftResult> {
    shape(lengths(rank, first)?, kind(number)?, batch)
}

/// `cufftPlanMany`.
#[allow(clippy::too_many_arguments)]
pub fn plan_many(
    place: Out<i32>,
    rank: i32,
    first: In<i32>,
    _inner: Address,
    _step: i32,
    _distance: i32,
    _out_inner: Address,
    _out_step: i32,
    _out_distance: i32,
    number: u32,
    batch: i32,
) -> FftResult {
    plan_of(place, many(rank, first, number, batch.into()))
}

/// `cufftMakePlanMany`, `cufftMakePlanMany64`: the strides do not change the size.
#[allow(clippy::too_many_arguments)]
pub fn make_many<T: Copy + Into<i64>>(
    plan: i32,
    rank: i32,
    first: In<T>,
    _inner: Address,
    _step: i64,
    _distance: i64,
    _out_inner: Address,
    _out_step: i64,
    _out_distance: i64,
    number: u32,
    batch: i64,
    size: Out<usize>,
) -> FftResult {
    make(plan, many(rank, first, number, batch), size)
}

/// `cufftGetSizeMany`, `cufftGetSizeMany64`.
#[allow(clippy::too_many_arguments)]
pub fn size_many<T: Copy + Into<i64>>(
    _plan: i32,
    rank: i32,
    first: In<T>,
    _inner: Address,
    _step: i64,
    _distance: i64,
    _out_inner: Address,
    _out_step: i64,
    _out_distance: i64,
    number: u32,
    batch: i64,
    size: Out<usize>,
) -> FftResult {
    tell(many(rank, first, number, batch), size)
}

/// `cufftEstimateMany`.
#[allow(clippy::too_many_arguments)]
pub fn estimate_many(
    rank: i32,
    first: In<i32>,
    _inner: Address,
    _step: i32,
    _distance: i32,
    _out_inner: Address,
    _out_step: i32,
    _out_distance: i32,
    number: u32,
    batch: i32,
    size: Out<usize>,
) -> FftResult {
    tell(many(rank, first, number, batch.into()), size)
}

fn many_of_types(
    rank: i32,
    first: In<i64>,
    types: [u32; 3],
    batch: i64,
) -> Result<Shape, FftResult> {
    let [input, output, execution] = types;
    shape(
        lengths(rank, first)?,
        kind_of_types(input, output, execution)?,
        batch,
    )
}

/// `cufftXtMakePlanMany`.
#[allow(clippy::too_many_arguments)]
pub fn make_many_of_types(
    plan: i32,
    rank: i32,
    first: In<i64>,
    _inner: Address,
    _step: i64,
    _distance: i64,
    input: u32,
    _out_inner: Address,
    _out_step: i64,
    _out_distance: i64,
    output: u32,
    batch: i64,
    size: Out<usize>,
    execution: u32,
) -> FftResult {
    let types = [input, output, execution];
    make(plan, many_of_types(rank, first, types, batch), size)
}

/// `cufftXtGetSizeMany`.
#[allow(clippy::too_many_arguments)]
pub fn size_many_of_types(
    _plan: i32,
    rank: i32,
    first: In<i64>,
    _inner: Address,
    _step: i64,
    _distance: i64,
    input: u32,
    _out_inner: Address,
    _out_step: i64,
    _out_distance: i64,
    output: u32,
    batch: i64,
    size: Out<usize>,
    execution: u32,
) -> FftResult {
    let types = [input, output, execution];
    tell(many_of_types(rank, first, types, batch), size)
}

/// `cufftGetVersion`.
pub fn version(place: Out<i32>) -> FftResult {
    let [major, minor, patch] = numbers();
    result(put(place, major * 1000 + minor * 100 + patch))
}

/// `cufftGetProperty`: major, minor, patch.
pub fn property(which: u32, place: Out<i32>) -> FftResult {
    result(match numbers().get(which as usize) {
        Some(number) => put(place, *number),
        None => Err(FftResult::INVALID_VALUE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_shape_has_one_size_however_it_is_described() {
        let mut sizes = [0_usize; 5];
        let [one, two, three, four, five] = &mut sizes;
        let (lengths, wide) = ([30, 50_i32], [30, 50_i64]);
        let asked = [
            estimate_2d(30, 50, 0x29, Out::to(one)),
            size_2d(1, 30, 50, 0x29, Out::to(two)),
            estimate_many(
                2,
                In::all(&lengths),
                0,
                1,
                1500,
                0,
                1,
                1500,
                0x29,
                1,
                Out::to(three),
            ),
            size_many(
                1,
                2,
                In::all(&wide),
                0,
                1,
                1500,
                0,
                1,
                1500,
                0x29,
                1,
                Out::to(four),
            ),
            size_many_of_types(
                1,
                2,
                In::all(&wide),
                0,
                1,
                9,
                4,
                0,
                1,
                9,
                4,
                1,
                Out::to(five),
                4,
            ),
        ];
        assert_eq!(asked, [FftResult::SUCCESS; 5]);
        assert_eq!(sizes, [30 * 50 * 8; 5]);
    }

    #[test]
    fn what_is_no_transform_is_refused() {
        let mut size = 0;
        let place = Out::to(&mut size);
        assert_eq!(estimate_1d(0, 0x29, 1, place), FftResult::INVALID_SIZE);
        assert_eq!(estimate_1d(8, 0x29, -1, place), FftResult::INVALID_SIZE);
        assert_eq!(estimate_1d(8, 7, 1, place), FftResult::INVALID_TYPE);
        let none = In::all(&[8_i32]);
        let refused = estimate_many(4, none, 0, 1, 1, 0, 1, 1, 0x29, 1, place);
        assert_eq!(refused, FftResult::INVALID_VALUE);
    }
    #[test]
    fn a_side_that_is_not_complex_is_real() {
        const REAL: u32 = 0;
        assert_eq!(kind_of_types(REAL, 4, 4), kind(0x2a));
        assert_eq!(kind_of_types(4, REAL, 4), kind(0x2c));
        assert_eq!(kind_of_types(4, 4, 4), kind(0x29));
        assert_eq!(kind_of_types(5, 5, 5), kind(0x69));
        assert_eq!(kind_of_types(4, 4, REAL), Err(FftResult::INVALID_TYPE));
    }
}
