//! Device and managed memory: allocation, release, queries.

use super::on_stream::on_stream;
use crate::ffi::{Answer, CuError, Out, require};
use crate::model::kind::Kind;
use crate::model::state::{machine, state};
use crate::model::stream::On;
use gpumem_cuda_abi::{CuDevicePtr, CuMemLocation, CuMemLocationType};

/// The alignment of rows in pitched allocations.
const PITCH_ALIGN: usize = 512;

/// `cuMemGetInfo`: free and total bytes of the current device. Contexts and whole pages count as
/// used.
pub extern "C" fn get_info(free: Out<usize>, total: Out<usize>) -> Answer {
    let mut state = state()?;
    let current = state.current()?;
    let books = state.books.device(current.device);
    free.put_if_asked(books.free_bytes() as usize);
    total.put_if_asked(books.total_bytes() as usize);
    Ok(())
}

/// `cuMemAlloc`. With a configured duration, other processes see the memory in use during the call.
pub extern "C" fn alloc(out: Out<CuDevicePtr>, bytes: usize) -> Answer {
    allocated(out, bytes)?;
    let time = machine().allocation_time;
    if !time.is_zero() {
        std::thread::sleep(time);
    }
    Ok(())
}

fn allocated(out: Out<CuDevicePtr>, bytes: usize) -> Answer {
    require(!out.is_null())?;
    let mut state = state()?;
    let current = state.current()?;
    state.unsafe_call()?;
    let base = state.allocate_device(current, bytes as u64, Kind::Device)?;
    out.put(CuDevicePtr(base))
}

/// `cuMemAllocPitch`: the books record pitch × height.
pub extern "C" fn alloc_pitch(
    out: Out<CuDevicePtr>,
    pitch: Out<usize>,
    width: usize,
    height: usize,
    element: u32,
) -> Answer {
    require(!out.is_null() && !pitch.is_null() && width > 0 && height > 0)?;
    require(matches!(element, 4 | 8 | 16))?;
    let mut state = state()?;
    let current = state.current()?;
    let row = width.checked_next_multiple_of(PITCH_ALIGN);
    let bytes = row.and_then(|row| row.checked_mul(height));
    let (Some(row), Some(bytes)) = (row, bytes) else {
        return Err(CuError::OUT_OF_MEMORY);
    };
    state.unsafe_call()?;
    let base = state.allocate_device(current, bytes as u64, Kind::Device)?;
    pitch.put(row)?;
    out.put(CuDevicePtr(base))
}

/// `cuMemAllocManaged`.
pub extern "C" fn alloc_managed(out: Out<CuDevicePtr>, bytes: usize, flags: u32) -> Answer {
    require(!out.is_null() && matches!(flags, 1 | 2 | 4))?;
    let mut state = state()?;
    let current = state.current()?;
    state.unsafe_call()?;
    let base = state.allocate_managed(current, bytes as u64, flags)?;
    out.put(CuDevicePtr(base))
}

/// `cuMemFree`, which needs no context. Null is valid.
pub extern "C" fn free(pointer: CuDevicePtr) -> Answer {
    let mut state = state()?;
    state.unsafe_call()?;
    if pointer.0 == 0 {
        return Ok(());
    }
    state.free_now(pointer.0)
}

/// `cuMemGetAddressRange`.
pub extern "C" fn get_address_range(
    base: Out<CuDevicePtr>,
    bytes: Out<usize>,
    pointer: CuDevicePtr,
) -> Answer {
    let state = state()?;
    state.bound()?;
    let found = state.memory.holding(pointer.0);
    let found = found.filter(|allocation| !allocation.is_host());
    let found = found.ok_or(CuError::NOT_FOUND)?;
    base.put_if_asked(CuDevicePtr(found.base));
    bytes.put_if_asked(found.bytes as usize);
    Ok(())
}

/// `cuMemAdvise`: a hint, without effect.
pub extern "C" fn advise(pointer: CuDevicePtr, bytes: usize, _advice: u32, _to: i32) -> Answer {
    managed_base(pointer, bytes).map(drop)
}

/// `cuMemAdvise_v2`: a hint, without effect.
pub extern "C" fn advise_v2(
    pointer: CuDevicePtr,
    bytes: usize,
    _advice: u32,
    _to: CuMemLocation,
) -> Answer {
    managed_base(pointer, bytes).map(drop)
}

/// Moves managed memory to a device or the host.
pub fn move_to(pointer: CuDevicePtr, bytes: usize, to: CuMemLocation) -> Answer {
    let base = managed_base(pointer, bytes)?;
    let mut state = state()?;
    let on_device = to.kind == CuMemLocationType::DEVICE;
    if on_device {
        state.device(to.id)?;
    }
    state.migrate_managed(base, on_device);
    Ok(())
}

/// -1 denotes the host.
fn prefetch_on(on: On, pointer: CuDevicePtr, bytes: usize, to: i32) -> Answer {
    let kind = if to == -1 {
        CuMemLocationType::HOST
    } else {
        CuMemLocationType::DEVICE
    };
    prefetch_v2_on(on, pointer, bytes, CuMemLocation { kind, id: to }, 0)
}

fn prefetch_v2_on(
    on: On,
    pointer: CuDevicePtr,
    bytes: usize,
    to: CuMemLocation,
    flags: u32,
) -> Answer {
    require(flags == 0)?;
    state()?.not_captured(on)?;
    move_to(pointer, bytes, to)
}

on_stream! {
    "`cuMemPrefetchAsync`." prefetch prefetch_own
        [pointer: CuDevicePtr, bytes: usize, to: i32] [] = prefetch_on;
    "`cuMemPrefetchAsync_v2`." prefetch_v2 prefetch_v2_own
        [pointer: CuDevicePtr, bytes: usize, to: CuMemLocation, flags: u32] [] = prefetch_v2_on;
}

fn managed_base(pointer: CuDevicePtr, bytes: usize) -> Answer<u64> {
    let state = state()?;
    state.bound()?;
    let found = state.memory.holding(pointer.0);
    let found = found.filter(|allocation| allocation.kind == Kind::Managed);
    let found = found.ok_or(CuError::INVALID_VALUE)?;
    require(pointer.0 - found.base + bytes as u64 <= found.bytes)?;
    Ok(found.base)
}

/// `cuMemRangeGetAttribute`: hints and the last prefetch are not stored, so every attribute is that
/// of unset ones.
pub extern "C" fn range_get_attribute(
    data: Out<i32>,
    bytes: usize,
    attribute: u32,
    pointer: CuDevicePtr,
    length: usize,
) -> Answer {
    managed_base(pointer, length)?;
    require(bytes >= 4 && (1..=8).contains(&attribute))?;
    let unknown = if attribute == 1 { 0 } else { -2 };
    data.put(unknown)
}
