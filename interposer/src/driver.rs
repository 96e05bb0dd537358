//! Questions that the hooks ask the driver about what a call did: read-only, and only from within a
//! call that the program itself made.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::{
    CuContext, CuDevice, CuDevicePtr, CuGraph, CuMemAllocationProp, CuMemHandle, CuMemLocationType,
    CuMemoryPool, CuResult, CuStream, CuUuid, DeviceRange,
};

use crate::hook;
use crate::resolve::libraries::{self, Home};
use crate::withheld;

/// A driver function that is asked, looked up once.
struct Question {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Question {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicUsize::new(0),
        }
    }

    fn address(&self) -> Option<usize> {
        match self.address.load(Ordering::Relaxed) {
            // Past our own hook, where there is one of that name.
            0 => match libraries::find(Home::Driver, self.name, self.own()) {
                0 => None,
                found => {
                    self.address.store(found, Ordering::Relaxed);
                    Some(found)
                }
            },
            known => Some(known),
        }
    }

    fn own(&self) -> usize {
        hook::by_name(self.name.to_bytes()).map_or(0, |hook| hook.address())
    }
}

/// Calls a driver function by name; `None` where the driver has none or it fails.
macro_rules! ask {
    ($name:literal, fn($($type:ty),*), $($argument:expr),*) => {{
        static QUESTION: Question = Question::new($name);
        gpumem_capture::assert_may_wait();
        QUESTION.address().and_then(|address| {
            type Function = unsafe extern "C" fn($($type),*) -> CuResult;
            // SAFETY: the driver exports this function with this type in every version we know.
            let function = unsafe { core::mem::transmute::<usize, Function>(address) };
            // SAFETY: out parameters point to live locals of the right type.
            let result = unsafe { function($($argument),*) };
            result.is_success().then_some(())
        })
    }};
}

/// The current context's handle; 0 without one.
pub(crate) fn current_context() -> u64 {
    let mut context = CuContext::NULL;
    let asked = ask!(c"cuCtxGetCurrent", fn(*mut CuContext), &mut context);
    asked.map_or(0, |()| context.0 as u64)
}

/// The current context's device.
pub(crate) fn current_device() -> DeviceOrdinal {
    let mut device = CuDevice(-1);
    match ask!(c"cuCtxGetDevice", fn(*mut CuDevice), &mut device) {
        Some(()) => ordinal(device),
        None => DeviceOrdinal::NONE,
    }
}

/// A device as the capture numbers it.
pub(crate) fn ordinal(device: CuDevice) -> DeviceOrdinal {
    u8::try_from(device.0).map_or(DeviceOrdinal::NONE, DeviceOrdinal)
}

/// The device that holds `pointer`.
pub(crate) fn device_of(pointer: u64) -> DeviceOrdinal {
    const DEVICE_ORDINAL: u32 = 9;
    let mut device: c_int = -1;
    let asked = ask!(
        c"cuPointerGetAttribute",
        fn(*mut c_void, u32, CuDevicePtr),
        (&raw mut device).cast(),
        DEVICE_ORDINAL,
        CuDevicePtr(pointer)
    );
    match asked {
        Some(()) => ordinal(CuDevice(device)),
        None => DeviceOrdinal::NONE,
    }
}

/// The pool that the memory at `pointer` came from.
pub(crate) fn pool_holding(pointer: u64) -> Option<CuMemoryPool> {
    const MEMPOOL_HANDLE: u32 = 17;
    let mut pool = CuMemoryPool::NULL;
    ask!(
        c"cuPointerGetAttribute",
        fn(*mut c_void, u32, CuDevicePtr),
        (&raw mut pool).cast(),
        MEMPOOL_HANDLE,
        CuDevicePtr(pointer)
    )?;
    (!pool.is_null()).then_some(pool)
}

/// The allocation that holds `pointer`.
pub(crate) fn range_of(pointer: CuDevicePtr) -> Option<DeviceRange> {
    let (mut base, mut bytes) = (CuDevicePtr(0), 0usize);
    let asked = ask!(
        c"cuMemGetAddressRange_v2",
        fn(*mut CuDevicePtr, *mut usize, CuDevicePtr),
        &mut base,
        &mut bytes,
        pointer
    );
    let bytes = bytes as u64;
    asked.map(|()| DeviceRange { base, bytes })
}

/// Whether the primary context of a device is alive.
pub(crate) fn primary_is_active(device: CuDevice) -> Option<bool> {
    let (mut flags, mut active) = (0u32, 0 as c_int);
    ask!(
        c"cuDevicePrimaryCtxGetState",
        fn(CuDevice, *mut u32, *mut c_int),
        device,
        &mut flags,
        &mut active
    )
    .map(|()| active != 0)
}

/// Holds the primary context of a device, which comes to life if nobody else does.
pub(crate) fn retain_primary(device: CuDevice) -> Option<()> {
    let mut context = CuContext::NULL;
    ask!(
        c"cuDevicePrimaryCtxRetain",
        fn(*mut CuContext, CuDevice),
        &mut context,
        device
    )
}

/// Lets go of it.
pub(crate) fn release_primary(device: CuDevice) {
    let _ = ask!(c"cuDevicePrimaryCtxRelease_v2", fn(CuDevice), device);
}

/// The graph that a stream is being captured into; null if another call has just spoilt the capture.
pub(crate) fn captured_graph(stream: CuStream) -> CuGraph {
    let (mut status, mut id, mut graph) = (0 as c_int, 0u64, CuGraph::NULL);
    let _ = ask!(
        c"cuStreamGetCaptureInfo_v2",
        fn(CuStream, *mut c_int, *mut u64, *mut CuGraph, *mut c_void, *mut usize),
        stream,
        &mut status,
        &mut id,
        &mut graph,
        core::ptr::null_mut(),
        core::ptr::null_mut()
    );
    graph
}

/// Whether a stream is being captured into a graph, or still has a capture to end that was spoilt. The question brings
/// an inactive primary context back.
pub(crate) fn is_capturing(stream: CuStream) -> bool {
    let mut status: c_int = 0;
    let asked = ask!(
        c"cuStreamIsCapturing",
        fn(CuStream, *mut c_int),
        stream,
        &mut status
    );
    asked.is_some() && status != 0
}

/// Runs `f` in a way that disturbs no stream capture.
fn relaxed<R>(f: impl FnOnce() -> R) -> R {
    const RELAXED: c_int = 2;
    let exchange =
        |mode: &mut c_int| ask!(c"cuThreadExchangeStreamCaptureMode", fn(*mut c_int), mode);
    let mut mode = RELAXED;
    let exchanged = exchange(&mut mode);
    let result = f();
    if exchanged.is_some() {
        let _ = exchange(&mut mode);
    }
    result
}

/// Bytes that are free on the current context's device, and that it has in all, by the driver's word of this
/// moment.
pub(crate) fn memory_info() -> Option<(u64, u64)> {
    let (mut free, mut total) = (0usize, 0usize);
    ask!(
        c"cuMemGetInfo_v2",
        fn(*mut usize, *mut usize),
        &mut free,
        &mut total
    )
    .map(|()| (free as u64, total as u64))
}

/// Bytes that are free on the current context's device, with what a limit withholds. Asked in a way that disturbs no
/// stream capture.
pub(crate) fn free_bytes() -> Option<u64> {
    let ask = || relaxed(memory_info).map(|(free, _)| free);
    let (free, withheld) = withheld::read(current_device(), ask);
    free.map(|free| free + withheld)
}

/// Takes physical memory of a device, with no address.
pub(crate) fn create_physical(device: DeviceOrdinal, bytes: u64) -> Option<CuMemHandle> {
    const PINNED: u32 = 1;
    // SAFETY: of integers and a pointer that may be null, zeros are a valid value.
    let mut properties = unsafe { MaybeUninit::<CuMemAllocationProp>::zeroed().assume_init() };
    properties.kind = PINNED;
    properties.location.kind = CuMemLocationType::DEVICE;
    properties.location.id = i32::from(device.0);
    let mut handle = CuMemHandle(0);
    relaxed(|| {
        ask!(
            c"cuMemCreate",
            fn(*mut CuMemHandle, usize, *const CuMemAllocationProp, u64),
            &mut handle,
            bytes as usize,
            &properties,
            0
        )
    })
    .map(|()| handle)
}

/// Gives such memory back.
pub(crate) fn release_physical(handle: CuMemHandle) {
    let _ = relaxed(|| ask!(c"cuMemRelease", fn(CuMemHandle), handle));
}

/// How many devices this process sees; `None` before the driver is initialised.
pub(crate) fn device_count() -> Option<u8> {
    let mut count: c_int = 0;
    ask!(c"cuDeviceGetCount", fn(*mut c_int), &mut count)?;
    Some(u8::try_from(count).unwrap_or(u8::MAX))
}

/// What a device has in all; `None` before the driver is initialised.
pub(crate) fn total_bytes(device: CuDevice) -> Option<u64> {
    let mut total = 0usize;
    ask!(
        c"cuDeviceTotalMem_v2",
        fn(*mut usize, CuDevice),
        &mut total,
        device
    )
    .map(|()| total as u64)
}

/// The pool that a device's stream-ordered memory comes from.
pub(crate) fn pool_of(device: DeviceOrdinal) -> Option<CuMemoryPool> {
    let device = CuDevice(i32::from(device.0));
    let mut pool = CuMemoryPool::NULL;
    ask!(
        c"cuDeviceGetMemPool",
        fn(*mut CuMemoryPool, CuDevice),
        &mut pool,
        device
    )
    .map(|()| pool)
}

/// The device that a stream's work runs on; the calling thread may have another's context, or none.
pub(crate) fn stream_device(stream: CuStream) -> DeviceOrdinal {
    let is_default = stream.0 as usize <= CuStream::PER_THREAD.0 as usize;
    let mut device = CuDevice(-1);
    let asked = if is_default {
        None
    } else {
        ask!(
            c"cuStreamGetDevice", // since 12.8
            fn(CuStream, *mut CuDevice),
            stream,
            &mut device
        )
    };
    asked.map_or_else(current_device, |()| ordinal(device))
}

/// The device that a pool's memory lies on, where the driver tells (since 12.8).
pub(crate) fn pool_device(pool: CuMemoryPool) -> Option<DeviceOrdinal> {
    const LOCATION_ID: u32 = 11;
    let mut device: c_int = -1;
    ask!(
        c"cuMemPoolGetAttribute",
        fn(CuMemoryPool, u32, *mut c_void),
        pool,
        LOCATION_ID,
        (&raw mut device).cast()
    )
    .map(|()| ordinal(CuDevice(device)))
}

/// Bytes that a pool holds from its device; `None` if there is no such pool.
pub(crate) fn pool_reserved(pool: CuMemoryPool) -> Option<u64> {
    const RESERVED_MEM_CURRENT: u32 = 5;
    let mut bytes = 0u64;
    ask!(
        c"cuMemPoolGetAttribute",
        fn(CuMemoryPool, u32, *mut c_void),
        pool,
        RESERVED_MEM_CURRENT,
        (&raw mut bytes).cast()
    )
    .map(|()| bytes)
}

/// The device that a physical handle's memory lies on; none for memory of the host.
pub(crate) fn handle_device(handle: CuMemHandle) -> Option<DeviceOrdinal> {
    let mut properties = MaybeUninit::<CuMemAllocationProp>::zeroed();
    ask!(
        c"cuMemGetAllocationPropertiesFromHandle",
        fn(*mut CuMemAllocationProp, CuMemHandle),
        properties.as_mut_ptr(),
        handle
    )?;
    // SAFETY: zeros are a valid value of the structure, which the driver has filled in.
    let location = unsafe { properties.assume_init() }.location;
    Some(match location.kind {
        CuMemLocationType::DEVICE => ordinal(CuDevice(location.id)),
        _ => DeviceOrdinal::NONE,
    })
}

/// Bytes that a device holds for its graphs' memory nodes.
pub(crate) fn graph_reserved(device: CuDevice) -> Option<u64> {
    const RESERVED_MEM_CURRENT: u32 = 2;
    let mut bytes = 0u64;
    ask!(
        c"cuDeviceGetGraphMemAttribute",
        fn(CuDevice, u32, *mut c_void),
        device,
        RESERVED_MEM_CURRENT,
        (&raw mut bytes).cast()
    )
    .map(|()| bytes)
}

/// The driver's version, as 13020 for 13.2.
pub(crate) fn version() -> Option<i32> {
    let mut version: c_int = 0;
    ask!(c"cuDriverGetVersion", fn(*mut c_int), &mut version).map(|()| version)
}

/// What a DEVICE definition says of a device.
pub(crate) struct DeviceFacts {
    pub(crate) total_bytes: u64,
    pub(crate) uuid: [u8; 16],
    pub(crate) name: Text,
    pub(crate) pci: Text,
}

/// A short text from the driver, held without allocating.
pub(crate) struct Text([u8; 256]);

impl Text {
    /// The text's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        self.0.get(..end).unwrap_or(&[])
    }
}

/// Asks for a device's facts; what the driver does not tell stays empty.
pub(crate) fn device_facts(device: CuDevice) -> DeviceFacts {
    let mut facts = DeviceFacts {
        total_bytes: 0,
        uuid: [0; 16],
        name: Text([0; 256]),
        pci: Text([0; 256]),
    };
    facts.total_bytes = total_bytes(device).unwrap_or(0);
    let mut uuid = CuUuid { bytes: [0; 16] };
    // `_v2` names a MIG instance; drivers before 11.4 have only the first.
    let asked = ask!(
        c"cuDeviceGetUuid_v2",
        fn(*mut CuUuid, CuDevice),
        &mut uuid,
        device
    );
    if asked.is_none() {
        let _ = ask!(
            c"cuDeviceGetUuid",
            fn(*mut CuUuid, CuDevice),
            &mut uuid,
            device
        );
    }
    facts.uuid = uuid.bytes;
    let _ = ask!(
        c"cuDeviceGetName",
        fn(*mut c_char, c_int, CuDevice),
        facts.name.0.as_mut_ptr().cast(),
        255,
        device
    );
    let _ = ask!(
        c"cuDeviceGetPCIBusId",
        fn(*mut c_char, c_int, CuDevice),
        facts.pci.0.as_mut_ptr().cast(),
        255,
        device
    );
    facts
}
