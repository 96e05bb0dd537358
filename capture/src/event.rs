//! Events: records of one slot.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | commit word, written last: see SPEC.md |
//! | 8 | 8 | time, ns since the capture was opened |
//! | 16 | 8 | ptr |
//! | 24 | 8 | bytes |
//! | 32 | 8 | aux, by kind |
//! | 40 | 4 | Python stack |
//! | 44 | 4 | native stack |
//! | 48 | 4 | thread |
//! | 52 | 1 | kind |
//! | 53 | 1 | level |
//! | 54 | 1 | device |
//! | 55 | 1 | placement |
//! | 56 | 2 | api |
//! | 58 | 2 | flags |
//! | 60 | 4 | 1 + slack; 0: not known |

use crate::{ApiId, DeviceOrdinal, Level, Nanos, PlacementId, StackId, ThreadId};

/// The kind of a record. Values below 128 are events, values from 128 on are definitions ([`crate::DefKind`]). A reader
/// skips unknown kinds.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKind(pub u8);

impl EventKind {
    /// `bytes` at `ptr` became live at `level`. Tensor level: `aux` is the number of bytes that the framework then held
    /// from the driver (reserved bytes). Driver and host level: `aux` is the return address of the call, which is in
    /// the calling library; 0: unknown.
    pub const ALLOC: Self = Self(1);
    /// `bytes` at `ptr` are no longer live; recorded before the real call. `bytes` is the live map's
    /// figure (0 with [`EventFlags::UNKNOWN_POINTER`]). Tensor level: `aux` as for ALLOC.
    pub const FREE: Self = Self(2);
    /// The free with the sequence number `aux` failed: `bytes` at `ptr` are still live.
    pub const CANCEL: Self = Self(3);
    /// `bytes` of the VMM handle `aux` were mapped at `ptr`. Changes no live figure.
    pub const MAP: Self = Self(4);
    /// `bytes` were unmapped at `ptr`. Changes no live figure (the FREE of a handle does).
    pub const UNMAP: Self = Self(5);
    /// An allocation of `bytes` failed because of insufficient memory. Tensor level: `aux` is reserved bytes, `ptr` the
    /// live bytes that the framework reported. Driver level: `aux` is the result code. Physical level: a context, or
    /// with [`EventFlags::MODULE`] code of kernels; with `aux` 1 the program queried the text of the error.
    pub const OUT_OF_MEMORY: Self = Self(6);
    /// A context was created on `device`; `ptr` is the handle, `aux` the return address of the call. Its size is a
    /// RESIZE with [`EventFlags::CONTEXT`].
    pub const CONTEXT: Self = Self(7);
    /// A context ended; with [`EventFlags::RESET`] every driver allocation of the device ends too.
    pub const CONTEXT_END: Self = Self(8);
    /// A module or library of kernels was loaded: `ptr` is its handle, `bytes` the address of its image in memory (0:
    /// it came from a file), `aux` the return address of the call. Its size is a RESIZE with [`EventFlags::MODULE`].
    pub const MODULE_LOAD: Self = Self(9);
    /// The module or library `ptr` was unloaded.
    pub const MODULE_UNLOAD: Self = Self(10);
    /// A scope began, or began again; `aux` is its number, `ptr` that of its name's [`crate::DefKind::RANGE`] (0:
    /// none).
    pub const SCOPE_BEGIN: Self = Self(11);
    /// A scope ended; `aux` is its number.
    pub const SCOPE_END: Self = Self(12);
    /// A training step ended; `aux` is its number, from 1. `bytes` is 1 if the program reported the step itself.
    pub const STEP: Self = Self(13);
    /// A reading of NVML: `bytes` used by this process on `device`, `aux` by all other processes (`u64::MAX`: NVML does
    /// not report it), `ptr` the physical level's live bytes at that time.
    pub const SAMPLE: Self = Self(14);
    /// `bytes` owned elsewhere became accessible at an address (IPC, import): an alias, not counted.
    pub const ALIAS: Self = Self(15);
    /// An alias ended.
    pub const ALIAS_END: Self = Self(16);
    /// The reservation `ptr` at the physical level, whose kind is in the flags, has `bytes` now and had `aux` before. A
    /// reservation grows and shrinks (a pool, a context); 0 is its end. `ptr` is its handle; for a library in several
    /// contexts, an odd number in all but one.
    pub const RESIZE: Self = Self(17);
    /// A reading of NVML, for the whole card: `bytes` used, including those that the driver reserves; `aux` reserved by
    /// the driver (`u64::MAX`: not reported), `ptr` the card's memory.
    pub const CARD: Self = Self(18);
    /// `bytes` of address space were reserved at `ptr`: no memory.
    pub const ADDRESS: Self = Self(19);
    /// Address space was freed.
    pub const ADDRESS_END: Self = Self(20);
    /// A memory node of the graph `aux` was created, for `bytes` at `ptr`. They become live at a launch.
    pub const NODE: Self = Self(21);
    /// A range (NVTX) began on this thread: `aux` is its name's [`crate::DefKind::RANGE`]; `ptr` is 0 for a pushed
    /// range, otherwise the handle of a range that any thread may end.
    pub const RANGE_BEGIN: Self = Self(22);
    /// The newest pushed range of this thread ended, or that of the handle `ptr`.
    pub const RANGE_END: Self = Self(23);
    /// The thread entered a phase of the training; `aux` is the [`Phase`].
    pub const PHASE_BEGIN: Self = Self(24);
    /// The thread left the phase `aux`, which is the last one that it entered.
    pub const PHASE_END: Self = Self(25);
    /// A mark of the program; `aux` is the number of its [`crate::DefKind::RANGE`].
    pub const MARK: Self = Self(26);
    /// The tensor's block that begins at `ptr` has the role `aux`: [`Role`]. `bytes` is 1 if the role was queried
    /// from the framework, 0 if the recorder observed it. Changes no live figure.
    pub const ROLE: Self = Self(27);
    /// A call or action of the framework's caching allocator that affects its later behaviour; `aux` is the
    /// [`AllocatorCall`]. Tensor level. Changes no live figure.
    pub const ALLOCATOR: Self = Self(28);

    /// Whether the record is an event rather than a definition.
    pub fn is_event(self) -> bool {
        self.0 < 128
    }
}

/// A call or action of a framework's caching allocator. A pool is given by the placement.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocatorCall(pub u64);

impl AllocatorCall {
    /// The block at `ptr`, which has been freed and waited for other streams, returned to the pool now.
    pub const RELEASED: Self = Self(1);
    /// The block at `ptr` is used on the placement's stream.
    pub const RECORD_STREAM: Self = Self(2);
    /// Reserved but unallocated memory of one pool or of all pools is returned to the driver.
    pub const EMPTY_CACHE: Self = Self(3);
    /// Sets the fraction of the card that the process may hold: `bytes` are the bits of an f64.
    pub const FRACTION: Self = Self(4);
    /// Allocations may come from a pool from now on.
    pub const POOL_BEGIN: Self = Self(5);
    /// Allocations no longer come from the pool.
    pub const POOL_END: Self = Self(6);
    /// A user of a pool was removed.
    pub const POOL_RELEASE: Self = Self(7);
    /// A pool was created, or a user added.
    pub const POOL_RETAIN: Self = Self(8);
    /// The capture of a stream began.
    pub const CAPTURE_BEGIN: Self = Self(9);
    /// The capture ended.
    pub const CAPTURE_END: Self = Self(10);
    /// Blocks of a pool may be used when memory runs out (`bytes` 1), or may not.
    pub const USE_ON_OOM: Self = Self(11);
    /// Blocks of a pool are not split.
    pub const NO_SPLIT: Self = Self(12);
    /// Settings at run time: `bytes` is the number of the [`crate::DefKind::RANGE`] with their text.
    pub const SETTINGS: Self = Self(13);
    /// A pool is being restored to the state at `ptr`: the newest [`Self::STATE`] of that address, of any pool. Frees
    /// and allocations of the thread up to its [`Self::CHECKPOINT_END`] belong to this. `ptr` 0: the state and the end
    /// are unknown.
    pub const CHECKPOINT: Self = Self(14);
    /// The restore ended, or failed (`bytes` 1).
    pub const CHECKPOINT_END: Self = Self(15);
    /// The state of a pool was saved, and is kept at `ptr`.
    pub const STATE: Self = Self(16);
}

/// A phase of a training. Outside these phases it runs its forward pass, or no PyTorch code.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Phase(pub u64);

impl Phase {
    /// Autograd's engine runs.
    pub const BACKWARD: Self = Self(1);
    /// An optimizer's step.
    pub const OPTIMIZER: Self = Self(2);
    /// Gradients are zeroed or dropped.
    pub const ZERO_GRAD: Self = Self(3);
}

/// The use of a tensor's block by a framework, where it is known for certain.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role(pub u64);

impl Role {
    /// A parameter of a model.
    pub const PARAMETER: Self = Self(1);
    /// The gradient of one.
    pub const GRADIENT: Self = Self(2);
    /// State of an optimizer.
    pub const OPTIMIZER_STATE: Self = Self(3);
    /// A buffer of a model.
    pub const BUFFER: Self = Self(4);
}

/// Bits that qualify an event.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventFlags(pub u16);

impl EventFlags {
    /// None.
    pub const NONE: Self = Self(0);
    /// The pointer was not in the live map (allocated before the hooks were armed, or elsewhere).
    pub const UNKNOWN_POINTER: Self = Self(1);
    /// The framework's own figure did not equal our counter when the event was recorded.
    pub const MISMATCH: Self = Self(2);
    /// Ordered by a stream (`cuMemAllocAsync`, `cuMemFreeAsync`).
    pub const STREAM_ORDERED: Self = Self(4);
    /// Managed memory: its location is unknown.
    pub const MANAGED: Self = Self(8);
    /// Physical memory of a VMM handle (`cuMemCreate`); `ptr` is the handle, not an address.
    pub const VMM_HANDLE: Self = Self(16);
    /// The end of a context freed everything on the device.
    pub const RESET: Self = Self(32);
    /// Created while a stream was being captured.
    pub const CAPTURE: Self = Self(64);
    /// Of a graph's memory node. Physical level: the memory behind the graphs of a device; `ptr` is 1 + the device's
    /// ordinal.
    pub const GRAPH: Self = Self(128);
    /// The size of a context, including its limits; `ptr` is its handle. With [`Self::STREAM_ORDERED`], the size of its
    /// streams; `ptr` is its handle with the lowest bit set.
    pub const CONTEXT: Self = Self(256);
    /// The size of a module or library of kernels; `ptr` is its handle.
    pub const MODULE: Self = Self(512);
    /// An array or mipmapped array; `ptr` is its handle.
    pub const ARRAY: Self = Self(1024);
    /// Computed as a difference while other memory may have changed.
    pub const ESTIMATED: Self = Self(2048);
    /// Pinned host memory of the program: registered, not allocated.
    pub const REGISTERED: Self = Self(4096);
    /// A workspace of cuBLAS, which PyTorch allocates from its cache, or the failure to allocate one. Tensor level.
    pub const WORKSPACE: Self = Self(8192);
    /// Of a failed allocation: the card had enough memory, but beyond its limit ([`crate::ProcessKey::LIMIT`]).
    pub const LIMIT: Self = Self(16384);
    /// Allocated while gradients were off (`no_grad`, `inference_mode`). Tensor level.
    pub const NO_GRAD: Self = Self(32768);

    /// Both sets of bits.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// An event without its sequence number, which the ring assigns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time: Nanos,
    /// Address, or handle: see [`EventKind`].
    pub ptr: u64,
    /// Bytes: see [`EventKind`].
    pub bytes: u64,
    /// By kind: see [`EventKind`].
    pub aux: u64,
    /// The Python stack of the calling thread.
    pub py_stack: StackId,
    /// The native stack of the calling thread.
    pub native_stack: StackId,
    /// The calling thread.
    pub thread: ThreadId,
    /// What happened.
    pub kind: EventKind,
    /// Its level.
    pub level: Level,
    /// Its device.
    pub device: DeviceOrdinal,
    /// The outermost CUDA function that the user's code called.
    pub api: ApiId,
    /// Qualifying bits.
    pub flags: EventFlags,
    /// Tensor level: where the framework's pool took the block from.
    pub placement: PlacementId,
    /// For an ALLOC of the tensor level: the size of the block minus the requested size.
    pub slack: u32,
}

impl Event {
    /// The requested size is unknown.
    pub const SLACK_UNKNOWN: u32 = u32::MAX;
}
