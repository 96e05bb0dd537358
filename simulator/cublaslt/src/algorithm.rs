//! Algorithms. There is one, and it uses no more than the caller's workspace.

use crate::descriptor::number;
use gpumem_sim_client::blas::{Status, pointer, status};
use gpumem_sim_client::ffi::{Address, Handle, Out};

/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`.
const MAX_WORKSPACE_BYTES: u32 = 1;

/// The workspace that the algorithm uses, if the caller allows it.
const WORKSPACE_BYTES: usize = 4 << 20;

/// `CUBLASLT_ALGO_CONFIG_ID`, and the id of the only algorithm.
const CONFIG_ID: usize = 0;
const ALGORITHM: u32 = 66;

/// `cublasLtMatmulAlgo_t`: 64 bytes. Here one number for each of its attributes, at most sixteen.
pub type Algorithm = [u32; 16];

/// `cublasLtMatmulHeuristicResult_t`: 96 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Found {
    algorithm: Algorithm,
    workspace_bytes: usize,
    state: Status,
    waves: f32,
    reserved: [i32; 4],
}

const THE_ONE: Algorithm = {
    let mut algorithm = [0; 16];
    algorithm[CONFIG_ID] = ALGORITHM;
    algorithm
};

fn found(algorithm: Algorithm, workspace_bytes: usize) -> Found {
    Found {
        algorithm,
        workspace_bytes,
        state: Status::SUCCESS,
        waves: 1.0,
        reserved: [0; 4],
    }
}

/// `cublasLtMatmulAlgoGetHeuristic`.
#[allow(clippy::too_many_arguments)]
pub fn get_heuristic(
    handle: Handle,
    _product: Handle,
    _a: Handle,
    _b: Handle,
    _c: Handle,
    _d: Handle,
    preference: Handle,
    wanted: i32,
    results: Out<Found>,
    count: Out<i32>,
) -> Status {
    if handle == 0 {
        return Status::NOT_INITIALIZED;
    }
    if wanted < 1 || results.is_null() {
        return Status::INVALID_VALUE;
    }
    let allowed = number(preference, MAX_WORKSPACE_BYTES).unwrap_or(0) as usize;
    let result = found(THE_ONE, allowed.min(WORKSPACE_BYTES));
    let told = results.put(result).and_then(|()| count.put(1));
    status(pointer(told))
}

/// `cublasLtMatmulAlgoGetIds`.
#[allow(clippy::too_many_arguments)]
pub fn get_ids(
    _handle: Handle,
    _compute: u32,
    _scale: u32,
    _a: u32,
    _b: u32,
    _c: u32,
    _d: u32,
    wanted: i32,
    ids: Out<u32>,
    count: Out<i32>,
) -> Status {
    if wanted < 1 {
        return Status::INVALID_VALUE;
    }
    status(pointer(ids.put(ALGORITHM).and_then(|()| count.put(1))))
}

/// `cublasLtMatmulAlgoInit`.
#[allow(clippy::too_many_arguments)]
pub fn init(
    _handle: Handle,
    _compute: u32,
    _scale: u32,
    _a: u32,
    _b: u32,
    _c: u32,
    _d: u32,
    id: u32,
    algorithm: Out<Algorithm>,
) -> Status {
    if id != ALGORITHM {
        return Status::INVALID_VALUE;
    }
    status(pointer(algorithm.put(THE_ONE)))
}

/// `cublasLtMatmulAlgoCheck`: every configuration is valid and needs no workspace.
#[allow(clippy::too_many_arguments)]
pub fn check(
    _handle: Handle,
    _product: Handle,
    _a: Handle,
    _b: Handle,
    _c: Handle,
    _d: Handle,
    algorithm: Out<Algorithm>,
    result: Out<Found>,
) -> Status {
    let checked = algorithm
        .get()
        .and_then(|algorithm| result.put(found(algorithm, 0)));
    status(pointer(checked))
}

/// `cublasLtMatmulAlgoConfigSetAttribute`: numbers of up to four bytes.
pub fn set_config(
    algorithm: Out<Algorithm>,
    attribute: u32,
    value: Address,
    size: usize,
) -> Status {
    let set = || -> Result<(), Status> {
        let mut config = pointer(algorithm.get())?;
        let place = config.get_mut(attribute as usize);
        let place = place.ok_or(Status::INVALID_VALUE)?;
        *place = match size {
            2 => pointer(Out::<u16>::at(value).get())?.into(),
            4 => pointer(Out::<u32>::at(value).get())?,
            _ => return Err(Status::INVALID_VALUE),
        };
        pointer(algorithm.put(config))
    };
    status(set())
}

/// `cublasLtMatmulAlgoConfigGetAttribute`.
pub fn get_config(
    algorithm: Out<Algorithm>,
    attribute: u32,
    value: Address,
    size: usize,
    written: Out<usize>,
) -> Status {
    let get = || -> Result<(), Status> {
        let config = pointer(algorithm.get())?;
        let found = config.get(attribute as usize);
        let found = *found.ok_or(Status::INVALID_VALUE)?;
        written.put_if_asked(size);
        match size {
            2 => pointer(Out::<u16>::at(value).put(found as u16)),
            4 => pointer(Out::<u32>::at(value).put(found)),
            _ => Err(Status::INVALID_VALUE),
        }
    };
    status(get())
}

/// `cublasLtMatmul`, `cublasLtMatrixTransform`: nothing is computed.
pub fn compute(handle: Handle) -> Status {
    if handle == 0 {
        return Status::NOT_INITIALIZED;
    }
    Status::SUCCESS
}

/// `cublasLtCreate`.
pub fn create(handle: Out<Handle>) -> Status {
    if handle.is_null() {
        return Status::INVALID_VALUE;
    }
    // Each handle points to its own byte, which is freed when the handle is destroyed.
    status(pointer(handle.put(Box::into_raw(Box::new(0_u8)) as Handle)))
}

/// `cublasLtDestroy`.
pub fn destroy(handle: Handle) -> Status {
    if handle == 0 {
        return Status::NOT_INITIALIZED;
    }
    // SAFETY: the caller passes a handle from `create`, once, as the documentation requires.
    drop(unsafe { Box::from_raw(handle as *mut u8) });
    Status::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{create_empty, set_attribute};

    #[test]
    fn structures_have_cudas_sizes() {
        assert_eq!(size_of::<Algorithm>(), 64);
        assert_eq!(size_of::<Found>(), 96);
    }

    fn heuristic(preference: Handle) -> (Status, i32, usize) {
        let mut result = found([0; 16], 0);
        let mut count = 0;
        let place = Out::to(&mut result);
        let status = get_heuristic(1, 0, 0, 0, 0, 0, preference, 3, place, Out::to(&mut count));
        (status, count, result.workspace_bytes)
    }

    #[test]
    fn the_workspace_is_never_more_than_allowed() {
        let mut preference = 0;
        assert_eq!(create_empty(Out::to(&mut preference)), Status::SUCCESS);
        assert_eq!(heuristic(preference), (Status::SUCCESS, 1, 0));
        for (allowed, asked) in [(1000_usize, 1000), (1 << 30, WORKSPACE_BYTES)] {
            let place = &raw const allowed as Address;
            assert_eq!(set_attribute(preference, 1, place, 8), Status::SUCCESS);
            assert_eq!(heuristic(preference), (Status::SUCCESS, 1, asked));
        }
    }

    #[test]
    fn configurations_are_kept_in_the_algorithm() {
        let mut algorithm = [0; 16];
        let place = Out::to(&mut algorithm);
        assert_eq!(init(1, 0, 0, 0, 0, 0, 0, ALGORITHM, place), Status::SUCCESS);
        let tile = 20_u32;
        let set = set_config(place, 1, &raw const tile as Address, 4);
        assert_eq!(set, Status::SUCCESS);
        let mut got = 0_u32;
        let get = get_config(place, 1, &raw mut got as Address, 4, Out::NOWHERE);
        assert_eq!((get, got), (Status::SUCCESS, 20));
        assert_eq!(
            set_config(place, 16, &raw const tile as Address, 4),
            Status::INVALID_VALUE
        );
    }
}
