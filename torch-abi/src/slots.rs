//! The slots of the allocator's vtable.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::defaults;

/// A PyTorch library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// libc10_cuda.so
    C10Cuda,
    /// libtorch_cuda.so
    TorchCuda,
}

/// Which allocator the process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// PyTorch's own pool.
    Native,
    /// CUDA's pool, `cudaMallocAsync`.
    Async,
    /// An allocator that the program provides.
    Pluggable,
}

impl Backend {
    /// PyTorch's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Async => "cudaMallocAsync",
            Self::Pluggable => "pluggable",
        }
    }
}

/// Functions of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // they are called as PyTorch's are
pub enum Method {
    RecordStream,
    EmptyCache,
    /// `emptyCache()`, before 2.8: of all pools.
    EmptyAllCaches,
    SetMemoryFraction,
    BeginAllocateToPool,
    /// `beginAllocateStreamToPool`, before 2.2: of the allocations on one stream.
    BeginAllocateStreamToPool,
    EndAllocateStreamToPool,
    MarkCaptureBegin,
    MarkCaptureEnd,
    EndAllocateToPool,
    ReleasePool,
    CreateOrIncrefPool,
    SetUseOnOom,
    SetNoSplit,
    GetCheckpointState,
    SetCheckpointPoolState,
    AttachAllocatorTraceTracker,
    AttachOutOfMemoryObserver,
    RawAllocWithStream,
    RawDelete,
    RawDeleter,
}

/// The class whose vtable is known, and PyTorch's own class, by their mangled names.
const PLUGGABLE: &CStr = c"_ZTVN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocatorE";
const NATIVE: &[u8] = b"N3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocatorE";
const ALLOCATOR: &CStr = c"_ZN3c104cuda20CUDACachingAllocator9allocatorE";
/// The maximum number of slots of a table.
const MOST: usize = 80;

macro_rules! of_pluggable {
    ($tail:literal) => {
        of_pluggable!(const "", $tail)
    };
    (const $const:literal, $tail:literal) => {
        match CStr::from_bytes_with_nul(
            concat!("_ZN", $const, "5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator", $tail, "\0").as_bytes(),
        ) {
            Ok(name) => name,
            Err(_) => c"",
        }
    };
}

impl Method {
    /// The symbols of the function in the class that exports its functions.
    fn exported(self) -> &'static [&'static CStr] {
        match self {
            Self::RecordStream => {
                const {
                    &[of_pluggable!(
                        "12recordStreamERKN3c107DataPtrENS3_4cuda10CUDAStreamE"
                    )]
                }
            }
            Self::EmptyCache => const { &[of_pluggable!("10emptyCacheESt4pairIyyE")] },
            Self::EmptyAllCaches => const { &[of_pluggable!("10emptyCacheEv")] },
            // The type of a device has moved between releases, too.
            Self::SetMemoryFraction => {
                const {
                    &[
                        of_pluggable!("17setMemoryFractionEda"),
                        of_pluggable!("17setMemoryFractionEdi"),
                    ]
                }
            }
            Self::BeginAllocateToPool => {
                const {
                    &[of_pluggable!(
                        "19beginAllocateToPoolEaSt4pairIyyESt8functionIFbP11CUstream_stEE"
                    )]
                }
            }
            Self::EndAllocateToPool => {
                const { &[of_pluggable!("17endAllocateToPoolEaSt4pairIyyE")] }
            }
            Self::BeginAllocateStreamToPool => {
                const {
                    &[of_pluggable!(
                        "25beginAllocateStreamToPoolEiP11CUstream_stSt4pairIyyE"
                    )]
                }
            }
            Self::EndAllocateStreamToPool => {
                const { &[of_pluggable!("23endAllocateStreamToPoolEiP11CUstream_st")] }
            }
            Self::ReleasePool => {
                const {
                    &[
                        of_pluggable!("11releasePoolEaSt4pairIyyE"),
                        of_pluggable!("11releasePoolEiSt4pairIyyE"),
                    ]
                }
            }
            Self::GetCheckpointState => {
                const {
                    &[
                        of_pluggable!("18getCheckpointStateEaSt4pairIyyE"),
                        of_pluggable!("18getCheckpointStateEiSt4pairIyyE"),
                    ]
                }
            }
            Self::SetCheckpointPoolState => {
                const {
                    &[
                        of_pluggable!(
                            "22setCheckpointPoolStateEaSt10shared_ptrIN3c104cuda20CUDACachingAllocator14AllocatorStateEE"
                        ),
                        of_pluggable!(
                            "22setCheckpointPoolStateEiSt10shared_ptrIN3c104cuda20CUDACachingAllocator14AllocatorStateEE"
                        ),
                    ]
                }
            }
            // The class of its argument has moved between releases.
            Self::AttachAllocatorTraceTracker => {
                const {
                    &[
                        of_pluggable!(
                            "27attachAllocatorTraceTrackerESt8functionIFvRKN3c1022CachingDeviceAllocator10TraceEntryEEE"
                        ),
                        of_pluggable!(
                            "27attachAllocatorTraceTrackerESt8functionIFvRKN3c104cuda20CUDACachingAllocator10TraceEntryEEE"
                        ),
                    ]
                }
            }
            // The numbers that it is called with have had either type.
            Self::AttachOutOfMemoryObserver => {
                const {
                    &[
                        of_pluggable!("25attachOutOfMemoryObserverESt8functionIFvlmmmEE"),
                        of_pluggable!("25attachOutOfMemoryObserverESt8functionIFvllllEE"),
                    ]
                }
            }
            Self::RawAllocWithStream => {
                const { &[of_pluggable!("21raw_alloc_with_streamEmP11CUstream_st")] }
            }
            Self::RawDelete => const { &[of_pluggable!("10raw_deleteEPv")] },
            Self::RawDeleter => const { &[of_pluggable!(const "K", "11raw_deleterEv")] },
            Self::MarkCaptureBegin
            | Self::MarkCaptureEnd
            | Self::CreateOrIncrefPool
            | Self::SetUseOnOom
            | Self::SetNoSplit => &[],
        }
    }
}

/// Functions of pools whose names are only in their code, by their name in each release, and the method that each is.
const UNNAMED: [(&str, Option<Method>); 6] = [
    ("createOrIncrefPool", Some(Method::CreateOrIncrefPool)),
    (
        "ensureExistsAndIncrefPool",
        Some(Method::CreateOrIncrefPool),
    ),
    ("setUseOnOOM", Some(Method::SetUseOnOom)),
    ("setNoSplit", Some(Method::SetNoSplit)),
    ("getPoolUseCount", None),
    ("checkPoolLiveAllocations", None),
];
/// The function behind those of pools: `shareIpcHandle(void*)`, or before 2.5 `getIpcDevPtr(std::string)`.
const BEHIND_POOLS: [&CStr; 2] = [
    of_pluggable!("14shareIpcHandleEPv"),
    of_pluggable!("12getIpcDevPtrESs"),
];
/// The constructor of a pool, whose allocator is a `shared_ptr` since 2.11.
const SHARES_ALLOCATOR: &CStr =
    c"_ZN2at4cuda7MemPoolC1ESt10shared_ptrIN3c104cuda20CUDACachingAllocator13CUDAAllocatorEEbbb";

/// The process's allocator.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// None: its class is unknown.
    pub backend: Option<Backend>,
    /// Only for PyTorch's own allocator.
    pub table: Option<Table>,
}

/// PyTorch's own allocator and its vtable.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// The object: the first argument of its functions.
    pub object: usize,
    functions: usize,
    /// The vtable of the known class, and the functions that it exports.
    known: usize,
    named: [usize; NAMED.len()],
    /// The slots of the functions whose names are only in their code; None if there are other functions among them.
    unnamed: Option<[Option<usize>; UNNAMED.len()]>,
    /// See [`Table::shares_allocators`].
    shares_allocators: bool,
}

/// Finds the allocator. `symbol` returns the address of an exported symbol of a library, or 0; `memory` returns bytes
/// of libraries that are never written. None if there is no allocator yet.
pub fn find(
    symbol: impl Fn(Library, &CStr) -> usize,
    memory: impl Fn(usize, usize) -> Option<&'static [u8]>,
) -> Option<Found> {
    let place = symbol(Library::C10Cuda, ALLOCATOR) as *const AtomicUsize;
    // SAFETY: the variable is an atomic pointer.
    let object = unsafe { place.as_ref()? }.load(Ordering::Acquire);
    if object == 0 {
        return None;
    }
    // SAFETY: an object of a class with virtual functions begins with the address of its table, whose head says which
    // class it is.
    let (functions, class) = unsafe {
        let functions = *(object as *const usize);
        (functions, class_of(functions as *const usize))
    };
    let names = |part: &[u8]| class.windows(part.len()).any(|of| of == part);
    let backend = match class {
        NATIVE => Some(Backend::Native),
        _ if names(b"CudaMallocAsync") => Some(Backend::Async),
        _ if names(b"CUDAPluggableAllocator") => Some(Backend::Pluggable),
        _ => None,
    };
    let known = symbol(Library::TorchCuda, PLUGGABLE);
    let is_native = backend == Some(Backend::Native) && known != 0;
    let address = |method: Method| {
        let all = method.exported().iter();
        all.map(|name| symbol(Library::TorchCuda, name))
            .find(|&address| address != 0)
            .unwrap_or(0)
    };
    let table = is_native.then(|| {
        let mut table = Table {
            object,
            functions,
            known,
            named: NAMED.map(address),
            unnamed: None,
            shares_allocators: symbol(Library::TorchCuda, SHARES_ALLOCATOR) != 0,
        };
        let mut behind = BEHIND_POOLS
            .iter()
            .map(|name| symbol(Library::TorchCuda, name));
        let behind = behind.find_map(|at| table.of_address(at));
        if let (Some(release), Some(behind)) = (table.slot(Method::ReleasePool), behind) {
            let (names, all) = (UNNAMED.map(|(name, _)| name), table.known_functions());
            table.unnamed = defaults::between((release, behind), all, names, memory);
        }
        table
    });
    Some(Found { backend, table })
}

/// Methods that the class exports by name.
const NAMED: [Method; 16] = [
    Method::RecordStream,
    Method::EmptyCache,
    Method::EmptyAllCaches,
    Method::SetMemoryFraction,
    Method::BeginAllocateToPool,
    Method::EndAllocateToPool,
    Method::BeginAllocateStreamToPool,
    Method::EndAllocateStreamToPool,
    Method::ReleasePool,
    Method::GetCheckpointState,
    Method::SetCheckpointPoolState,
    Method::AttachAllocatorTraceTracker,
    Method::AttachOutOfMemoryObserver,
    Method::RawAllocWithStream,
    Method::RawDelete,
    Method::RawDeleter,
];

impl Table {
    /// The slot of a method; None if this release does not have it, or its slot cannot be determined.
    pub fn slot(&self, method: Method) -> Option<usize> {
        match method {
            Method::MarkCaptureBegin => Some(self.captures()? + 1),
            Method::MarkCaptureEnd => Some(self.captures()? + 2),
            Method::CreateOrIncrefPool | Method::SetUseOnOom | Method::SetNoSplit => {
                let mut all = UNNAMED.iter().zip(self.unnamed?);
                all.find_map(|((_, of), slot)| slot.filter(|_| *of == Some(method)))
            }
            method => {
                let place = NAMED.iter().position(|of| *of == method)?;
                self.of_address(*self.named.get(place)?)
            }
        }
    }

    /// Whether every function that controls pools is known.
    pub fn knows_pools(&self) -> bool {
        let ends = [Method::EndAllocateToPool, Method::EndAllocateStreamToPool];
        let end = ends.into_iter().find_map(|method| self.slot(method));
        let follows = end.is_some_and(|end| self.slot(Method::ReleasePool) == Some(end + 1));
        self.unnamed.is_some() && (follows || self.captures().is_some())
    }

    /// Whether pools share their allocators. If so, `createOrIncrefPool` takes a `shared_ptr`, and `setUseOnOOM` a
    /// bool. Otherwise they take a pointer and no bool.
    pub fn shares_allocators(&self) -> bool {
        self.shares_allocators
    }

    /// The slot before the functions that mark captures, which have no names; None if there are no such functions.
    fn captures(&self) -> Option<usize> {
        let end = self.slot(Method::EndAllocateToPool)?;
        (self.slot(Method::ReleasePool) == Some(end + 3)).then_some(end)
    }

    fn known_functions(&self) -> &'static [usize] {
        // SAFETY: behind the offset to the top and the type come the functions; a table that is shorter is followed by
        // other data of its library.
        unsafe { core::slice::from_raw_parts((self.known as *const usize).add(2), MOST) }
    }

    fn of_address(&self, address: usize) -> Option<usize> {
        let mut functions = self.known_functions().iter();
        functions.position(|function| address != 0 && *function == address)
    }

    /// The address of a slot.
    pub fn place(&self, slot: usize) -> &'static AtomicUsize {
        debug_assert!(slot < MOST);
        // SAFETY: the table stays with its library, which PyTorch never unloads; it has the slots of its base.
        unsafe { &*(self.functions as *const AtomicUsize).add(slot) }
    }

    /// The function in a method's slot.
    pub fn function(&self, method: Method) -> Option<usize> {
        let slot = self.slot(method)?;
        Some(self.place(slot).load(Ordering::Acquire))
    }
}

/// The mangled name of a class.
///
/// # Safety
/// It is a vtable of the Itanium ABI, after its header.
unsafe fn class_of(functions: *const usize) -> &'static [u8] {
    // SAFETY: before the functions stands the address of the class's `type_info`, whose second word is that of its name;
    // both stay with the library.
    unsafe {
        let type_info = *functions.cast::<*const *const c_char>().sub(1);
        match type_info.is_null() {
            true => b"",
            false => CStr::from_ptr(*type_info.add(1)).to_bytes(),
        }
    }
}
