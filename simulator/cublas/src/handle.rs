//! Handles: their workspaces and settings.

use gpumem_sim_client::blas::{self, Status, pointer, status};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, Out};
use gpumem_sim_machine::parse_size;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The default workspace of a handle.
const WORKSPACE_BYTES: u64 = 8 << 20;

/// A setting of a handle: one for each pair of `Set` and `Get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Setting {
    /// `cublasSetPointerMode`: 0 results on the host, 1 on the device.
    PointerMode,
    /// `cublasSetAtomicsMode`.
    AtomicsMode,
    /// `cublasSetMathMode`.
    MathMode,
    /// `cublasSetSmCountTarget`.
    SmCountTarget,
    /// `cublasSetEmulationStrategy`.
    EmulationStrategy,
    /// `cublasSetEmulationSpecialValuesSupport`.
    EmulationSpecialValues,
    /// `cublasSetFixedPointEmulationMantissaControl`.
    MantissaControl,
    /// `cublasSetFixedPointEmulationMaxMantissaBitCount`.
    MaxMantissaBits,
    /// `cublasSetFixedPointEmulationMantissaBitOffset`.
    MantissaBitOffset,
    /// `cublasSetEnvironmentMode`.
    EnvironmentMode,
}

/// One handle.
#[derive(Debug, Default)]
struct Blas {
    /// Its own workspace; 0 for none.
    workspace: Address,
    stream: Handle,
    settings: HashMap<Setting, u32>,
}

fn handles() -> MutexGuard<'static, HashMap<Handle, Blas>> {
    static ALL: LazyLock<Mutex<HashMap<Handle, Blas>>> = LazyLock::new(Mutex::default);
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn workspace_bytes() -> u64 {
    let set = std::env::var("GPUMEM_SIM_CUBLAS_BYTES");
    set.ok()
        .and_then(|text| parse_size(&text).ok())
        .unwrap_or(WORKSPACE_BYTES)
}

/// Ensures that there is a context: the current one, else the primary one of the first device, as
/// the runtime inside the real library does.
fn context() -> Result<(), Status> {
    let failed = |_| Status::NOT_INITIALIZED;
    cu::cuInit(0).map_err(failed)?;
    let mut current = 0;
    cu::cuCtxGetCurrent(Out::to(&mut current)).map_err(failed)?;
    if current == 0 {
        cu::cuDevicePrimaryCtxRetain(Out::to(&mut current), 0).map_err(failed)?;
        cu::cuCtxSetCurrent(current).map_err(failed)?;
    }
    Ok(())
}

/// `cublasCreate_v2`.
pub fn create(place: Out<Handle>) -> Status {
    if place.is_null() {
        return Status::INVALID_VALUE;
    }
    let make = || -> Result<(), Status> {
        context()?;
        let mut blas = Blas::default();
        let bytes = workspace_bytes() as usize;
        if bytes > 0 {
            let allocated = cu::cuMemAlloc(Out::to(&mut blas.workspace), bytes);
            allocated.map_err(|_| Status::ALLOC_FAILED)?;
        }
        // Each handle points to its own byte, so that live handles are unique.
        let handle = Box::into_raw(Box::new(0_u8)) as Handle;
        handles().insert(handle, blas);
        pointer(place.put(handle))
    };
    status(make())
}

/// `cublasDestroy_v2`.
pub fn destroy(handle: Handle) -> Status {
    let Some(blas) = handles().remove(&handle) else {
        return Status::NOT_INITIALIZED;
    };
    if blas.workspace != 0 {
        // After a reset of the device the workspace is already gone, so errors are ignored.
        let _ = cu::cuMemFree(blas.workspace);
    }
    // SAFETY: the handle was in the table, so it came from `create`; it is removed first, so this
    // happens once.
    drop(unsafe { Box::from_raw(handle as *mut u8) });
    Status::SUCCESS
}

fn with<T>(handle: Handle, ask: impl FnOnce(&mut Blas) -> T) -> Result<T, Status> {
    let mut handles = handles();
    let blas = handles.get_mut(&handle);
    Ok(ask(blas.ok_or(Status::NOT_INITIALIZED)?))
}

/// The body of every computation: checks the handle.
pub fn compute(handle: Handle) -> Status {
    status(with(handle, |_| ()))
}

/// `cublasSetStream_v2`.
pub fn set_stream(handle: Handle, stream: Handle) -> Status {
    status(with(handle, |blas| blas.stream = stream))
}

/// `cublasGetStream_v2`.
pub fn get_stream(handle: Handle, stream: Out<Handle>) -> Status {
    status(with(handle, |blas| blas.stream).and_then(|set| pointer(stream.put(set))))
}

/// `cublasSetWorkspace_v2`: the caller's workspace is used from now on; the handle's own is freed
/// with the handle.
pub fn set_workspace(handle: Handle, workspace: Address, _bytes: usize) -> Status {
    const ALIGNMENT: usize = 256;
    if !workspace.is_multiple_of(ALIGNMENT) {
        return Status::INVALID_VALUE;
    }
    compute(handle)
}

/// Stores a setting.
pub fn set(handle: Handle, setting: Setting, value: u32) -> Status {
    status(with(handle, |blas| {
        blas.settings.insert(setting, value);
    }))
}

/// Returns a setting; 0 for one that was never set.
pub fn get(handle: Handle, setting: Setting, value: Out<u32>) -> Status {
    let found = with(handle, |blas| blas.settings.get(&setting).copied());
    status(found.and_then(|found| pointer(value.put(found.unwrap_or(0)))))
}

/// The stream of a live handle, and whether its results go to the device.
pub fn results(handle: Handle) -> Result<(Handle, bool), Status> {
    with(handle, |blas| {
        let mode = blas.settings.get(&Setting::PointerMode);
        (blas.stream, mode.is_some_and(|mode| *mode != 0))
    })
}

/// `cublasGetVersion_v2`.
pub fn version(_handle: Handle, version: Out<i32>) -> Status {
    status(pointer(version.put(blas::version())))
}
