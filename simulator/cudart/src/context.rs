//! Initialisation and primary contexts. A primary context is created when a thread first needs it,
//! and kept until a reset.

pub use crate::bound::Bound;
use crate::thread;
use gpumem_cuda_abi::CudaError;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Answer, Handle, Out, require};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Primary contexts that the runtime holds a reference to.
#[derive(Debug, Default)]
struct Primaries {
    by_device: BTreeMap<i32, Handle>,
    resets: u64,
}

static PRIMARIES: Mutex<Primaries> = Mutex::new(Primaries {
    by_device: BTreeMap::new(),
    resets: 0,
});

fn primaries() -> MutexGuard<'static, Primaries> {
    // No code panics while it holds the lock with inconsistent data.
    PRIMARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For functions without requirements.
pub fn nothing() -> Answer {
    Ok(())
}

/// For functions that need the driver but no context: calls `cuInit` once.
pub fn driver() -> Answer {
    static STARTED: OnceLock<Answer> = OnceLock::new();
    *STARTED.get_or_init(|| cu::cuInit(0))
}

/// For functions that need a context: the thread's current one, from any source; else the primary
/// context of the thread's device, which is made current.
pub fn context() -> Answer {
    driver()?;
    let mut current = 0;
    cu::cuCtxGetCurrent(Out::to(&mut current))?;
    let seen = thread::bound();
    let (resets, was_ours) = {
        let primaries = primaries();
        let lost = seen.context == current && seen.resets != primaries.resets;
        (primaries.resets, lost)
    };
    if current == 0 || was_ours && !is_primary(current) {
        return bind(thread::device());
    }
    thread::set_bound(Bound {
        context: current,
        resets,
    });
    Ok(())
}

fn is_primary(context: Handle) -> bool {
    primaries().by_device.values().any(|held| *held == context)
}

/// The primary context of a device, to which the runtime holds a reference.
pub fn primary(device: i32) -> Answer<Handle> {
    driver()?;
    let mut primaries = primaries();
    if let Some(context) = primaries.by_device.get(&device) {
        return Ok(*context);
    }
    let mut context = 0;
    cu::cuDevicePrimaryCtxRetain(Out::to(&mut context), device)?;
    primaries.by_device.insert(device, context);
    Ok(context)
}

/// Makes a device's primary context this thread's.
pub fn bind(device: i32) -> Answer {
    let context = primary(device)?;
    cu::cuCtxSetCurrent(context)?;
    let resets = primaries().resets;
    thread::set_bound(Bound { context, resets });
    Ok(())
}

/// The number of devices.
pub fn count() -> Answer<i32> {
    driver()?;
    let mut count = 0;
    cu::cuDeviceGetCount(Out::to(&mut count))?;
    Ok(count)
}

/// `cudaErrorInvalidDevice` for an invalid ordinal.
pub fn check_device(device: i32) -> Answer {
    if (0..count()?).contains(&device) {
        Ok(())
    } else {
        Err(CudaError::INVALID_DEVICE)
    }
}

/// The device of this thread: the current context's, else the chosen one.
pub fn current_device() -> Answer<i32> {
    driver()?;
    let mut device = 0;
    match cu::cuCtxGetDevice(Out::to(&mut device)) {
        Ok(()) => Ok(device),
        Err(_) => Ok(thread::device()),
    }
}

/// `cudaSetDevice`: since CUDA 12 it makes the primary context at once.
pub fn set_device(device: i32) -> Answer {
    check_device(device)?;
    bind(device)?;
    thread::set_device(device);
    Ok(())
}

/// `cudaInitDevice`: the same, without selecting the device.
pub fn initialise_device(device: i32, device_flags: u32, flags: u32) -> Answer {
    const FLAGS_ARE_VALID: u32 = 1;
    require(flags & !FLAGS_ARE_VALID == 0)?;
    check_device(device)?;
    if flags & FLAGS_ARE_VALID != 0 {
        cu::cuDevicePrimaryCtxSetFlags(device, device_flags)?;
    }
    primary(device).map(drop)
}

/// `cudaDeviceReset`: destroys everything in the current device's primary context. The next call
/// that needs a context creates it again.
pub fn reset() -> Answer {
    let device = current_device()?;
    let mut primaries = primaries();
    let held = primaries.by_device.remove(&device);
    if held.is_none() {
        return Ok(());
    }
    primaries.resets += 1;
    cu::cuDevicePrimaryCtxReset(device)
}
