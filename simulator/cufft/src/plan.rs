//! Plans: their work areas and settings.

use crate::work_area::{Shape, bytes};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, Out};
use gpumem_sim_client::level::Level;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// `cufftResult`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct FftResult(pub u32);

impl FftResult {
    /// Done.
    pub const SUCCESS: Self = Self(0);
    /// No such plan.
    pub const INVALID_PLAN: Self = Self(1);
    /// Out of memory.
    pub const ALLOC_FAILED: Self = Self(2);
    /// No such type.
    pub const INVALID_TYPE: Self = Self(3);
    /// A parameter is wrong.
    pub const INVALID_VALUE: Self = Self(4);
    /// There is no driver.
    pub const SETUP_FAILED: Self = Self(7);
    /// A length is wrong.
    pub const INVALID_SIZE: Self = Self(8);
    /// There is no work area.
    pub const NO_WORKSPACE: Self = Self(13);
    /// Not simulated.
    pub const NOT_SUPPORTED: Self = Self(16);
}

/// The result of a function's body.
pub fn result(answer: Result<(), FftResult>) -> FftResult {
    match answer {
        Ok(()) => FftResult::SUCCESS,
        Err(result) => result,
    }
}

/// Writes a value; a null pointer is an invalid value.
pub fn put<T>(place: Out<T>, value: T) -> Result<(), FftResult> {
    place.put(value).map_err(|_| FftResult::INVALID_VALUE)
}

#[derive(Debug)]
struct Plan {
    /// Bytes of the work area; `None` before the plan is made.
    needed: Option<usize>,
    /// Whether the plan allocates its work area itself.
    automatic: bool,
    /// Its own work area; 0 for none.
    own: Address,
    /// The caller's; 0 for none.
    given: Address,
    stream: Handle,
}

impl Plan {
    const NEW: Self = Self {
        needed: None,
        automatic: true,
        own: 0,
        given: 0,
        stream: 0,
    };

    fn release(&mut self) {
        if self.own != 0 {
            // After a reset of the device it is already gone, so errors are ignored.
            let _ = cu::cuMemFree(self.own);
            self.own = 0;
        }
    }
}

#[derive(Debug, Default)]
struct Plans {
    last: i32,
    all: HashMap<i32, Plan>,
}

fn plans() -> MutexGuard<'static, Plans> {
    static ALL: LazyLock<Mutex<Plans>> = LazyLock::new(Mutex::default);
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(plan: i32, ask: impl FnOnce(&mut Plan) -> Result<T, FftResult>) -> Result<T, FftResult> {
    let mut plans = plans();
    ask(plans.all.get_mut(&plan).ok_or(FftResult::INVALID_PLAN)?)
}

/// The figure of the model's range for work areas.
fn level() -> Level {
    static LEVEL: LazyLock<Level> =
        LazyLock::new(|| Level::from_environment("GPUMEM_SIM_CUFFT_WORKSPACE"));
    *LEVEL
}

/// Ensures that there is a context: the current one, else the primary one of the first device, as
/// the runtime inside the real library does.
fn context() -> Result<(), FftResult> {
    let failed = |_| FftResult::SETUP_FAILED;
    cu::cuInit(0).map_err(failed)?;
    let mut current = 0;
    cu::cuCtxGetCurrent(Out::to(&mut current)).map_err(failed)?;
    if current == 0 {
        cu::cuDevicePrimaryCtxRetain(Out::to(&mut current), 0).map_err(failed)?;
        cu::cuCtxSetCurrent(current).map_err(failed)?;
    }
    Ok(())
}

/// `cufftCreate`.
pub fn create(place: Out<i32>) -> FftResult {
    result((|| {
        context()?;
        let mut plans = plans();
        plans.last += 1;
        let number = plans.last;
        put(place, number)?;
        plans.all.insert(number, Plan::NEW);
        Ok(())
    })())
}

/// `cufftDestroy`.
pub fn destroy(plan: i32) -> FftResult {
    let found = plans().all.remove(&plan);
    result(
        found
            .map(|mut plan| plan.release())
            .ok_or(FftResult::INVALID_PLAN),
    )
}

/// Bytes of a transform's work area.
pub fn size(shape: &Shape) -> Result<usize, FftResult> {
    let bytes = bytes(shape, level()).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or(FftResult::ALLOC_FAILED)
}

/// Makes a plan: computes the size of its work area, and allocates it unless the caller provides
/// it.
pub fn make(plan: i32, shape: &Shape, place: Out<usize>) -> FftResult {
    result(with(plan, |plan| {
        let needed = size(shape)?;
        plan.release();
        if plan.automatic && needed > 0 {
            let allocated = cu::cuMemAlloc(Out::to(&mut plan.own), needed);
            allocated.map_err(|_| FftResult::ALLOC_FAILED)?;
        }
        plan.needed = Some(needed);
        place.put_if_asked(needed);
        Ok(())
    }))
}

/// `cufftGetSize`.
pub fn get_size(plan: i32, place: Out<usize>) -> FftResult {
    result(with(plan, |plan| put(place, plan.needed.unwrap_or(0))))
}

/// `cufftSetAutoAllocation`: applies to plans that are made later.
pub fn set_automatic(plan: i32, automatic: i32) -> FftResult {
    result(with(plan, |plan| {
        plan.automatic = automatic != 0;
        Ok(())
    }))
}

/// `cufftSetWorkArea`: the plan's own work area is freed.
pub fn set_work_area(plan: i32, area: Address) -> FftResult {
    result(with(plan, |plan| {
        plan.release();
        plan.given = area;
        Ok(())
    }))
}

/// `cufftSetStream`.
pub fn set_stream(plan: i32, stream: Handle) -> FftResult {
    result(with(plan, |plan| {
        plan.stream = stream;
        Ok(())
    }))
}

/// `cufftXtExec`, `cufftExecC2C` and similar functions: a made plan with a work area computes
/// nothing.
pub fn execute(plan: i32) -> FftResult {
    result(with(plan, |plan| {
        let needed = plan.needed.ok_or(FftResult::INVALID_PLAN)?;
        if needed > 0 && plan.own == 0 && plan.given == 0 {
            return Err(FftResult::NO_WORKSPACE);
        }
        Ok(())
    }))
}
