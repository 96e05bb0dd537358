//! Stream-ordered memory and memory pools.

use super::on_stream::on_stream;
use crate::ffi::{Answer, CuError, Handle, In, Out, require};
use crate::host::Access;
use crate::model::State;
use crate::model::kind::Kind;
use crate::model::pool::{ExportedPointer, Place};
use crate::model::sharing::{FILE_DESCRIPTOR, check_handle_types};
use crate::model::state::state;
use crate::model::stream::On;
use crate::model::vmm::is_numa_node;
use gpumem_cuda_abi::{
    ALLOCATION_MANAGED, ALLOCATION_PINNED, CuDevice, CuDevicePtr, CuMemAccessDesc, CuMemLocation,
    CuMemLocationType, CuMemPoolProps,
};
use std::os::fd::IntoRawFd;

fn alloc_on(on: On, out: Out<CuDevicePtr>, bytes: usize) -> Answer {
    require(!out.is_null())?;
    let mut state = state()?;
    let at = state.stream_at(on)?;
    let pool = state.pools.current_of(at.device);
    alloc_in(&mut state, on, out, bytes, pool)
}

fn alloc_from_pool_on(on: On, out: Out<CuDevicePtr>, bytes: usize, pool: Handle) -> Answer {
    require(!out.is_null())?;
    alloc_in(&mut *state()?, on, out, bytes, pool)
}

/// In a capture this adds an allocation node on the pool's device; graphs' memory elsewhere is not simulated.
fn alloc_in(
    state: &mut State,
    on: On,
    out: Out<CuDevicePtr>,
    bytes: usize,
    pool: Handle,
) -> Answer {
    let (place, device) = {
        let pool = state.pools.get(pool)?;
        (pool.place, pool.device)
    };
    let at = match place.kind() {
        Kind::Managed if place.device().is_none() => state.stream_at(on)?.device,
        _ => device,
    };
    let mut address = 0;
    let captured = state.captured(on, |state, graph, after| {
        if !place.is_on_card() {
            return Err(CuError::NOT_SUPPORTED);
        }
        let (node, base) = state.add_allocation(graph, after, device, bytes as u64)?;
        address = base;
        Ok(node)
    })?;
    // An allocation of 0 bytes returns null.
    if !captured && bytes > 0 {
        address = state.allocate_from_pool(pool, bytes as u64, at)?;
    }
    out.put(CuDevicePtr(address))
}

/// In a capture this adds a free node for the memory of an allocation node.
fn free_on(on: On, pointer: CuDevicePtr) -> Answer {
    let mut state = state()?;
    state.stream_at(on)?;
    if pointer.0 == 0 {
        return Ok(());
    }
    let captured = state.captured(on, |state, graph, after| {
        state.add_free(graph, after, pointer.0)
    })?;
    if captured {
        return Ok(());
    }
    state.free_device(pointer.0)
}

on_stream! {
    "`cuMemAllocAsync`." alloc_async alloc_own
        [out: Out<CuDevicePtr>, bytes: usize] [] = alloc_on;
    "`cuMemAllocFromPoolAsync`." alloc_from_pool alloc_from_pool_own
        [out: Out<CuDevicePtr>, bytes: usize, pool: Handle] [] = alloc_from_pool_on;
    "`cuMemFreeAsync`." free_async free_own [pointer: CuDevicePtr] [] = free_on;
}

/// `cuDeviceGetDefaultMemPool`.
pub extern "C" fn device_get_default(out: Out<Handle>, device: CuDevice) -> Answer {
    let state = state()?;
    out.put(state.pools.default_of(state.device(device.0)?))
}

/// `cuDeviceGetMemPool`.
pub extern "C" fn device_get(out: Out<Handle>, device: CuDevice) -> Answer {
    let state = state()?;
    out.put(state.pools.current_of(state.device(device.0)?))
}

/// `cuDeviceSetMemPool`.
pub extern "C" fn device_set(device: CuDevice, pool: Handle) -> Answer {
    let mut state = state()?;
    let device = state.device(device.0)?;
    state.pools.set_current(Place::on(device), pool)
}

/// The place of a pool with this type (`CUmemAllocationType`) and location.
fn place(state: &State, allocation: u32, location: CuMemLocation) -> Answer<Place> {
    require(matches!(allocation, ALLOCATION_PINNED | ALLOCATION_MANAGED))?;
    match location.kind {
        CuMemLocationType::DEVICE => drop(state.device(location.id)?),
        CuMemLocationType::HOST => {}
        CuMemLocationType::HOST_NUMA => require(is_numa_node(location.id))?,
        CuMemLocationType::NONE => require(allocation == ALLOCATION_MANAGED)?,
        _ => return Err(CuError::INVALID_VALUE),
    }
    if allocation == ALLOCATION_MANAGED && !state.manages_concurrently() {
        return Err(CuError::NOT_SUPPORTED);
    }
    Ok(Place {
        allocation,
        location,
    })
}

/// `cuMemGetDefaultMemPool`.
pub extern "C" fn get_default(out: Out<Handle>, location: In<CuMemLocation>, kind: u32) -> Answer {
    let mut state = state()?;
    let place = place(&state, kind, location.get()?)?;
    out.put(state.pools.of_place(place).0)
}

/// `cuMemGetMemPool`.
pub extern "C" fn get(out: Out<Handle>, location: In<CuMemLocation>, kind: u32) -> Answer {
    let mut state = state()?;
    let place = place(&state, kind, location.get()?)?;
    out.put(state.pools.of_place(place).1)
}

/// `cuMemSetMemPool`.
pub extern "C" fn set(location: In<CuMemLocation>, kind: u32, pool: Handle) -> Answer {
    let mut state = state()?;
    let place = place(&state, kind, location.get()?)?;
    state.pools.set_current(place, pool)
}

/// `cuMemPoolCreate`.
pub extern "C" fn create(out: Out<Handle>, properties: In<CuMemPoolProps>) -> Answer {
    require(!out.is_null())?;
    let properties = properties.get()?;
    let mut state = state()?;
    let place = place(&state, properties.alloc_type, properties.location)?;
    let is_managed = place.allocation == ALLOCATION_MANAGED;
    // Neither can be shared with other processes.
    let is_private = is_managed || place.location.kind == CuMemLocationType::HOST;
    require(properties.handle_types == 0 || !is_private)?;
    require(!is_managed || (properties.max_size == 0 && properties.usage == 0))?;
    check_handle_types(properties.handle_types)?;
    let max = properties.max_size as u64;
    out.put(state.create_pool(place, max, properties.handle_types)?)
}

/// `cuMemPoolDestroy`.
pub extern "C" fn destroy(pool: Handle) -> Answer {
    state()?.destroy_pool(pool)
}

/// `cuMemPoolTrimTo`.
pub extern "C" fn trim_to(pool: Handle, keep: usize) -> Answer {
    let mut state = state()?;
    state.pools.get(pool)?;
    state.trim_pool(pool, keep as u64);
    Ok(())
}

/// `cuMemPoolSetAttribute`. A peak can only be set to 0, which resets it to the current value.
pub extern "C" fn set_attribute(pool: Handle, attribute: u32, value: In<u64>) -> Answer {
    let mut state = state()?;
    let pool = state.pools.get_mut(pool)?;
    match attribute {
        // The reuse policies are C ints, half the width of the other attributes.
        1..=3 => pool.reuse[attribute as usize - 1] = value.cast::<i32>().get()?,
        4 => pool.release_threshold = value.get()?,
        6 | 8 => {
            require(value.get()? == 0)?;
            let mark = if attribute == 6 {
                &mut pool.reserved
            } else {
                &mut pool.used
            };
            mark.reset();
        }
        _ => return Err(CuError::INVALID_VALUE),
    }
    Ok(())
}

/// `cuMemPoolGetAttribute`.
pub extern "C" fn get_attribute(pool: Handle, attribute: u32, value: Out<u64>) -> Answer {
    let state = state()?;
    let pool = state.pools.get(pool)?;
    let int = value.cast::<i32>();
    match attribute {
        1..=3 => int.put(pool.reuse[attribute as usize - 1]),
        4 => value.put(pool.release_threshold),
        5 => value.put(pool.reserved.current),
        6 => value.put(pool.reserved.high),
        7 => value.put(pool.used.current),
        8 => value.put(pool.used.high),
        9 => int.put(pool.place.allocation as i32),
        10 => int.put(pool.handle_types as i32),
        11 => int.put(pool.place.location.id),
        12 => int.put(pool.place.location.kind.0 as i32),
        13 => value.put(pool.max_bytes),
        14 => int.put(0),
        _ => Err(CuError::INVALID_VALUE),
    }
}

/// `cuMemPoolSetAccess`.
pub extern "C" fn set_access(pool: Handle, access: In<CuMemAccessDesc>, count: usize) -> Answer {
    let mut state = state()?;
    state.pools.get(pool)?;
    for access in access.list(count)? {
        require(access.location.kind == CuMemLocationType::DEVICE)?;
        let device = state.device(access.location.id)?;
        let allowed = Access::from_flags(access.flags).ok_or(CuError::INVALID_VALUE)?;
        let pool = state.pools.get_mut(pool)?;
        // The pool's own device always has access.
        require(pool.place.device() != Some(device) || allowed == Access::ReadWrite)?;
        pool.access.insert(access.location.id, allowed);
    }
    Ok(())
}

/// `cuMemPoolGetAccess`.
pub extern "C" fn get_access(flags: Out<u32>, pool: Handle, location: In<CuMemLocation>) -> Answer {
    let location = location.get()?;
    let state = state()?;
    let pool = state.pools.get(pool)?;
    if location.kind.is_host() && pool.place.kind() != Kind::Async {
        return flags.put(3);
    }
    require(location.kind == CuMemLocationType::DEVICE)?;
    let device = state.device(location.id)?;
    let given = pool.access.get(&location.id).map_or(0, |a| a.flags());
    let is_own = pool.place.device() == Some(device);
    flags.put(if is_own { 3 } else { given })
}

/// `cuMemPoolExportToShareableHandle`: a file descriptor.
pub extern "C" fn export(out: Out<i32>, pool: Handle, kind: u32, flags: u64) -> Answer {
    require(!out.is_null() && flags == 0)?;
    let state = state()?;
    state.pools.get(pool)?;
    check_handle_types(kind)?;
    require(kind == FILE_DESCRIPTOR)?;
    out.put(state.export_pool(pool)?.into_raw_fd())
}

/// `cuMemPoolImportFromShareableHandle`: the descriptor is passed as the pointer's value.
pub extern "C" fn import(out: Out<Handle>, descriptor: Handle, kind: u32, flags: u64) -> Answer {
    require(!out.is_null() && flags == 0)?;
    let mut state = state()?;
    check_handle_types(kind)?;
    require(kind == FILE_DESCRIPTOR)?;
    let file = i32::try_from(descriptor).map_err(|_| CuError::INVALID_VALUE)?;
    out.put(state.import_pool(file)?)
}

/// `cuMemPoolExportPointer`.
pub extern "C" fn export_pointer(out: Out<ExportedPointer>, pointer: CuDevicePtr) -> Answer {
    out.put(state()?.export_pool_pointer(pointer.0)?)
}

/// `cuMemPoolImportPointer`.
pub extern "C" fn import_pointer(
    out: Out<CuDevicePtr>,
    pool: Handle,
    data: In<ExportedPointer>,
) -> Answer {
    require(!out.is_null())?;
    let exported = data.get()?;
    out.put(CuDevicePtr(state()?.import_pool_pointer(pool, exported)?))
}
