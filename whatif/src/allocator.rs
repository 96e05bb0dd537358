//! PyTorch's allocator in this process, called by the slots of its method table.

use std::cell::Cell;
use std::ffi::c_void;

use gpumem_torch_abi::{
    self as torch, Backend, Function, Method, Shared, Stream, Table, TraceEntry,
};

use crate::active::ActivePool;
use crate::attempt::attempt;
use crate::decisions;
use crate::real;

thread_local! {
    /// The pool that the requested block was taken from in the recorded run.
    static POOL: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// PyTorch's allocator.
pub(crate) struct Allocator {
    object: u64,
    alloc: usize,
    delete: usize,
    deleter: usize,
    table: Table,
    active: Option<ActivePool>,
    refuses: Cell<bool>,
}

/// A `c10::DataPtr` that owns nothing. Its `unique_ptr` has the deleter first.
#[repr(C)]
struct DataPtr {
    data: u64,
    deleter: u64,
    context: u64,
    device: u16,
}

/// `CheckpointDelta`: two vectors, of freed blocks and of a `DataPtr` for each allocated block.
#[repr(C)]
#[derive(Default)]
struct Delta {
    freed: [u64; 3],
    handed_out: [u64; 3],
}

impl Delta {
    /// Frees the vectors' own memory. Their blocks stay allocated, because the recorded program holds them; destroying
    /// a `DataPtr` would free its block.
    fn forget_blocks(self) {
        let delete = real::cxx(c"_ZdlPv");
        if delete == 0 {
            return; // it is leaked
        }
        // SAFETY: `operator delete(void*)` of the C++ library, with which vectors free their memory; it accepts null.
        let delete: extern "C" fn(u64) = unsafe { core::mem::transmute(delete) };
        delete(self.freed[0]);
        delete(self.handed_out[0]);
    }
}

/// Whether blocks of a stream come from the pool whose number is in the data. Called while a block is allocated.
extern "C" fn is_in_pool(pool: &[u64; 2], _: *const c_void) -> bool {
    POOL.get() == (pool[0], pool[1])
}

impl Allocator {
    /// The allocator of this process, or an error with the reason why it cannot be used.
    pub(crate) fn find() -> Result<Self, String> {
        let found =
            torch::find(real::torch, real::constants).ok_or("PyTorch's allocator is not loaded")?;
        let table = match (found.backend, found.table) {
            (Some(Backend::Native), Some(table)) => table,
            (Some(Backend::Native), None) => {
                return Err("this PyTorch's allocator cannot be called".into());
            }
            (Some(other), _) => {
                return Err(format!(
                    "the allocator is {}, which is not modelled",
                    other.name()
                ));
            }
            (None, _) => return Err("the allocator is of a class that is not known".into()),
        };
        let function = |method| {
            let function = table.function(method);
            function.ok_or_else(|| format!("this PyTorch's allocator has no {method:?}"))
        };
        let object = table.object as u64;
        let deleter = function(Method::RawDeleter)?;
        // SAFETY: the slot is that of `raw_deleter() const`, which takes the object.
        let deleter = unsafe { attempt(deleter, [object]) };
        Ok(Self {
            object,
            alloc: function(Method::RawAllocWithStream)?,
            delete: function(Method::RawDelete)?,
            deleter: deleter.ok_or("this PyTorch's allocator has no deleter")? as usize,
            table,
            active: ActivePool::find(),
            refuses: Cell::new(false),
        })
    }

    /// Makes the allocator call `traced` with each entry of its trace; returns whether that is possible. Its libstdc++
    /// passes the address of the function's data and that of the entry.
    pub(crate) fn attach_trace(
        &self,
        traced: extern "C-unwind" fn(*const c_void, &TraceEntry),
    ) -> bool {
        let Some(function) = self.table.function(Method::AttachAllocatorTraceTracker) else {
            return false;
        };
        type Attach = extern "C-unwind" fn(u64, &mut Function);
        // SAFETY: the slot is that of `attachAllocatorTraceTracker(std::function<void(const TraceEntry&)>)`; a function is
        // passed by its address.
        let attach: Attach = unsafe { core::mem::transmute(function) };
        attach(
            self.object,
            &mut Function::new([0; 2], traced as *const c_void),
        );
        true
    }

    /// Allocates a block; `None` without memory, or if the allocator [refuses](Self::refuses) it.
    pub(crate) fn alloc(&self, bytes: u64, stream: u64, pool: (u64, u64)) -> Option<u64> {
        POOL.set(pool);
        decisions::had_no_memory();
        // SAFETY: the slot is that of `raw_alloc_with_stream(size_t, cudaStream_t)`.
        let block = unsafe { attempt(self.alloc, [self.object, bytes, stream]) };
        if block.is_none() && !decisions::had_no_memory() {
            self.refuses.set(true);
        }
        block.filter(|&block| block != 0)
    }

    /// Whether it threw for another reason than out of memory, as 2.7 does for pools in expandable segments.
    pub(crate) fn refuses(&self) -> bool {
        self.refuses.get()
    }

    pub(crate) fn free(&self, block: u64) {
        // SAFETY: the slot is that of `raw_delete(void*)`; the block is the allocator's.
        unsafe { attempt(self.delete, [self.object, block]) };
    }

    /// Marks a block as used on a stream.
    pub(crate) fn record_stream(&self, block: u64, stream: Stream) -> bool {
        let data = DataPtr {
            data: block,
            deleter: self.deleter as u64,
            context: block,
            device: 1,
        };
        type Record = extern "C-unwind" fn(u64, &DataPtr, u64, u64);
        let Some(function) = self.table.function(Method::RecordStream) else {
            return false;
        };
        // SAFETY: the slot is that of `recordStream(const DataPtr&, CUDAStream)`.
        let record: Record = unsafe { core::mem::transmute(function) };
        record(self.object, &data, stream.device, stream.id);
        true
    }

    /// Empties the cache of a pool, or of all pools.
    pub(crate) fn empty_cache(&self, pool: (u64, u64)) -> bool {
        if self.table.slot(Method::EmptyCache).is_some() {
            return self.call(Method::EmptyCache, [pool.0, pool.1, 0, 0]);
        }
        let all = || self.call(Method::EmptyAllCaches, [0; 4]);
        match pool {
            (0, 0) => all(),
            pool => self.with_active(pool, all).unwrap_or(false),
        }
    }

    /// Makes a call while a pool is active on this thread; `None` if this release has no active pools.
    pub(crate) fn with_active<T>(&self, pool: (u64, u64), call: impl FnOnce() -> T) -> Option<T> {
        Some(self.active.as_ref()?.with(pool, call))
    }

    pub(crate) fn set_fraction(&self, fraction: f64) -> bool {
        let Some(function) = self.table.function(Method::SetMemoryFraction) else {
            return false;
        };
        type Set = extern "C-unwind" fn(u64, f64, u64);
        // SAFETY: the slot is that of `setMemoryFraction(double, DeviceIndex)`.
        let set: Set = unsafe { core::mem::transmute(function) };
        set(self.object, fraction, 0);
        true
    }

    /// Begins the use of a pool: by the recorded blocks, or in releases without filters by this stream.
    pub(crate) fn begin_pool(&self, pool: (u64, u64), stream: u64) -> bool {
        let mut filter = Function::new([pool.0, pool.1], is_in_pool as *const c_void);
        let filter = (&raw mut filter) as u64;
        self.call(Method::BeginAllocateToPool, [0, pool.0, pool.1, filter])
            || self.call(
                Method::BeginAllocateStreamToPool,
                [0, stream, pool.0, pool.1],
            )
    }

    /// Ends the use of a pool.
    pub(crate) fn end_pool(&self, pool: (u64, u64), stream: u64) -> bool {
        self.call(Method::EndAllocateToPool, [0, pool.0, pool.1, 0])
            || self.call(Method::EndAllocateStreamToPool, [0, stream, 0, 0])
    }

    /// Makes a call that takes device 0 and a pool.
    pub(crate) fn of_pool(&self, method: Method, pool: (u64, u64), more: u64) -> bool {
        self.call(method, [0, pool.0, pool.1, more])
    }

    pub(crate) fn retain_pool(&self, pool: (u64, u64)) -> bool {
        let none = [0_u64; 2]; // a `shared_ptr` that holds nothing
        let none = match self.table.shares_allocators() {
            true => (&raw const none) as u64,
            false => 0,
        };
        self.call(Method::CreateOrIncrefPool, [0, pool.0, pool.1, none])
    }

    /// The state of a pool; `None` if it cannot be read.
    pub(crate) fn state(&self, pool: (u64, u64)) -> Option<Shared> {
        let function = self.table.function(Method::GetCheckpointState)?;
        let mut state = Shared::default();
        let words = [(&raw mut state) as u64, self.object, 0, pool.0, pool.1];
        // SAFETY: the slot is that of `getCheckpointState(DeviceIndex, MempoolId)`; the place for its result is passed
        // first.
        let given = unsafe { attempt(function, words) };
        (given.is_some() && !state.is_empty()).then_some(state)
    }

    /// Restores a pool to a state; returns whether that succeeded.
    pub(crate) fn restore(&self, state: &Shared) -> bool {
        let Some(function) = self.table.function(Method::SetCheckpointPoolState) else {
            return false;
        };
        let (mut state, mut delta) = (state.clone(), Delta::default());
        let words = [
            (&raw mut delta) as u64,
            self.object,
            0,
            (&raw mut state) as u64,
        ];
        // SAFETY: the slot is that of `setCheckpointPoolState(DeviceIndex, std::shared_ptr<AllocatorState>)`. The words
        // are the place for the result, and the place of an argument that the caller destroys.
        let done = unsafe { attempt(function, words) }.is_some();
        if done {
            delta.forget_blocks();
        }
        done
    }

    fn call(&self, method: Method, [a, b, c, d]: [u64; 4]) -> bool {
        let Some(function) = self.table.function(method) else {
            return false;
        };
        type Call = extern "C-unwind" fn(u64, u64, u64, u64, u64);
        // SAFETY: the slot is that of the method, which takes at most these words.
        let call: Call = unsafe { core::mem::transmute(function) };
        call(self.object, a, b, c, d);
        true
    }
}
