//! Plans and transforms.

use crate::call;
use crate::plan::{self, FftResult};
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle, In, Out};

exports! {
    cufftCreate (plan: Out<i32>) -> FftResult = plan::create;
    cufftDestroy (plan: i32) -> FftResult = plan::destroy;
    cufftGetVersion (version: Out<i32>) -> FftResult = call::version;
    cufftGetProperty (which: u32, value: Out<i32>) -> FftResult = call::property;
    cufftSetStream (plan: i32, stream: Handle) -> FftResult = plan::set_stream;
    cufftSetAutoAllocation (plan: i32, automatic: i32) -> FftResult = plan::set_automatic;
    cufftSetWorkArea (plan: i32, area: Address) -> FftResult = plan::set_work_area;
    cufftGetSize (plan: i32, size: Out<usize>) -> FftResult = plan::get_size;
    cufftPlan1d (plan: Out<i32>, x: i32, kind: u32, batch: i32) -> FftResult = call::plan_1d;
    cufftMakePlan1d (plan: i32, x: i32, kind: u32, batch: i32, size: Out<usize>) -> FftResult = call::make_1d;
    cufftGetSize1d (plan: i32, x: i32, kind: u32, batch: i32, size: Out<usize>) -> FftResult = call::size_1d;
    cufftEstimate1d (x: i32, kind: u32, batch: i32, size: Out<usize>) -> FftResult = call::estimate_1d;
    cufftPlan2d (plan: Out<i32>, x: i32, y: i32, kind: u32) -> FftResult = call::plan_2d;
    cufftMakePlan2d (plan: i32, x: i32, y: i32, kind: u32, size: Out<usize>) -> FftResult = call::make_2d;
    cufftGetSize2d (plan: i32, x: i32, y: i32, kind: u32, size: Out<usize>) -> FftResult = call::size_2d;
    cufftEstimate2d (x: i32, y: i32, kind: u32, size: Out<usize>) -> FftResult = call::estimate_2d;
    cufftPlan3d (plan: Out<i32>, x: i32, y: i32, z: i32, kind: u32) -> FftResult = call::plan_3d;
    cufftMakePlan3d (plan: i32, x: i32, y: i32, z: i32, kind: u32, size: Out<usize>) -> FftResult = call::make_3d;
    cufftGetSize3d (plan: i32, x: i32, y: i32, z: i32, kind: u32, size: Out<usize>) -> FftResult = call::size_3d;
    cufftEstimate3d (x: i32, y: i32, z: i32, kind: u32, size: Out<usize>) -> FftResult = call::estimate_3d;
    cufftPlanMany (plan: Out<i32>, rank: i32, n: In<i32>, inner: Address, step: i32, distance: i32, out_inner: Address, out_step: i32, out_distance: i32, kind: u32, batch: i32) -> FftResult = call::plan_many;
    cufftMakePlanMany (plan: i32, rank: i32, n: In<i32>, inner: Address, step: i32, distance: i32, out_inner: Address, out_step: i32, out_distance: i32, kind: u32, batch: i32, size: Out<usize>) -> FftResult = call::make_many;
    cufftMakePlanMany64 (plan: i32, rank: i32, n: In<i64>, inner: Address, step: i64, distance: i64, out_inner: Address, out_step: i64, out_distance: i64, kind: u32, batch: i64, size: Out<usize>) -> FftResult = call::make_many;
    cufftGetSizeMany (plan: i32, rank: i32, n: In<i32>, inner: Address, step: i32, distance: i32, out_inner: Address, out_step: i32, out_distance: i32, kind: u32, batch: i32, size: Out<usize>) -> FftResult = call::size_many;
    cufftGetSizeMany64 (plan: i32, rank: i32, n: In<i64>, inner: Address, step: i64, distance: i64, out_inner: Address, out_step: i64, out_distance: i64, kind: u32, batch: i64, size: Out<usize>) -> FftResult = call::size_many;
    cufftEstimateMany (rank: i32, n: In<i32>, inner: Address, step: i32, distance: i32, out_inner: Address, out_step: i32, out_distance: i32, kind: u32, batch: i32, size: Out<usize>) -> FftResult = call::estimate_many;
    cufftXtMakePlanMany (plan: i32, rank: i32, n: In<i64>, inner: Address, step: i64, distance: i64, input: u32, out_inner: Address, out_step: i64, out_distance: i64, output: u32, batch: i64, size: Out<usize>, execution: u32) -> FftResult = call::make_many_of_types;
    cufftXtGetSizeMany (plan: i32, rank: i32, n: In<i64>, inner: Address, step: i64, distance: i64, input: u32, out_inner: Address, out_step: i64, out_distance: i64, output: u32, batch: i64, size: Out<usize>, execution: u32) -> FftResult = call::size_many_of_types;
    cufftXtExec (plan: i32) -> FftResult = plan::execute;
    cufftExecC2C (plan: i32) -> FftResult = plan::execute;
    cufftExecR2C (plan: i32) -> FftResult = plan::execute;
    cufftExecC2R (plan: i32) -> FftResult = plan::execute;
    cufftExecZ2Z (plan: i32) -> FftResult = plan::execute;
    cufftExecD2Z (plan: i32) -> FftResult = plan::execute;
    cufftExecZ2D (plan: i32) -> FftResult = plan::execute;
}
