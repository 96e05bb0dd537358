//! The bodies of all routines: return the size of the workspace, or set the statuses.

use crate::handle::stream;
use crate::status::{SolverStatus, put, status};
use crate::workspace::Need;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, Out};
use gpumem_sim_client::level::Level;
use std::sync::LazyLock;

/// The figure of the model's range for workspaces.
fn level() -> Level {
    static LEVEL: LazyLock<Level> =
        LazyLock::new(|| Level::from_environment("GPUMEM_SIM_CUSOLVER_WORKSPACE"));
    *LEVEL
}

/// `cusolverDn…_bufferSize`: in elements.
pub fn elements(handle: Handle, place: Out<i32>, need: Need) -> SolverStatus {
    status(stream(handle).and_then(|_| {
        let elements = i32::try_from(need.elements(level()));
        put(place, elements.map_err(|_| SolverStatus::INVALID_VALUE)?)
    }))
}

/// Bytes of a `cudaDataType`.
fn bytes_of(kind: u32) -> Result<u64, SolverStatus> {
    match kind {
        0 => Ok(4),
        1 | 4 => Ok(8),
        5 => Ok(16),
        _ => Err(SolverStatus::INVALID_VALUE),
    }
}

/// `cusolverDnX…_bufferSize`: in bytes, on the device and on the host.
pub fn bytes(
    handle: Handle,
    kind: u32,
    device: Out<usize>,
    host: Out<usize>,
    need: Need,
) -> SolverStatus {
    status(stream(handle).and_then(|_| {
        let bytes = need.elements(level()).checked_mul(bytes_of(kind)?);
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        put(device, bytes.ok_or(SolverStatus::INVALID_VALUE)?)?;
        put(host, 0)
    }))
}

/// A routine: sets `count` statuses to 0 on the handle's stream, and computes nothing.
pub fn solve(handle: Handle, info: Address, count: impl Into<i64>) -> SolverStatus {
    status(stream(handle).and_then(|stream| {
        let count = usize::try_from(count.into()).map_err(|_| SolverStatus::INVALID_VALUE)?;
        if info == 0 {
            return Err(SolverStatus::INVALID_VALUE);
        }
        if count == 0 {
            return Ok(());
        }
        let set = cu::cuMemsetD8Async(info, 0, count * size_of::<i32>(), stream);
        set.map_err(|_| SolverStatus::EXECUTION_FAILED)
    }))
}

/// The same, and sets the residuals of as many matrices on the host.
pub fn solve_with_residuals(
    handle: Handle,
    info: Address,
    residuals: Address,
    count: i32,
) -> SolverStatus {
    let solved = solve(handle, info, count);
    if solved == SolverStatus::SUCCESS && residuals != 0 {
        for place in 0..usize::try_from(count).unwrap_or(0) {
            // The caller has room for one double of each matrix.
            Out::<f64>::at(residuals + place * size_of::<f64>()).put_if_asked(0.0);
        }
    }
    solved
}
