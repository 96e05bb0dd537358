//! Virtual memory management: physical handles, counted once however often they are mapped.
//!
//! A handle's bytes are live from `cuMemCreate` until it has neither references nor mappings.

use core::ffi::c_void;
use core::hash::BuildHasherDefault;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use dashmap::DashMap;
use gpumem_capture::{DeviceOrdinal, EventFlags, EventKind, Level};
use gpumem_cuda_abi::{
    CuDevice, CuDevicePtr, CuMemAllocationProp, CuMemHandle, CuMemLocationType, CuResult,
};
use rustc_hash::FxHasher;

use super::seen::{self, Asked, Owner};
use super::{context, multicast};
use crate::call::Call;
use crate::driver;
use crate::limit::Takes;
use crate::lock::{Guard, Lock};
use crate::record::{self, Released, Remark};
use crate::thread::Thread;

/// A physical handle.
#[derive(Clone, Copy, Debug)]
struct Handle {
    level: Level,
    device: DeviceOrdinal,
    /// Made by another process or API: its bytes are counted there.
    alias: bool,
    references: u32,
    mappings: u32,
}

/// A mapping of a handle, by its first address.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    bytes: u64,
    handle: u64,
}

type Handles = DashMap<u64, Handle, BuildHasherDefault<FxHasher>>;

fn handles() -> &'static Handles {
    static HANDLES: OnceLock<Handles> = OnceLock::new();
    HANDLES.get_or_init(Handles::default)
}

/// The mappings, never locked across a driver call.
fn mappings() -> Guard<'static, BTreeMap<u64, Mapping>> {
    static MAPPINGS: Lock<BTreeMap<u64, Mapping>> = Lock::new(BTreeMap::new());
    MAPPINGS.lock()
}

/// Changes a handle's counts; the handle as it is then, taken out of the table if nothing holds it.
fn change(handle: u64, f: impl FnOnce(&mut Handle)) -> Option<Handle> {
    let after = {
        let mut entry = handles().get_mut(&handle)?;
        f(&mut entry);
        *entry
    };
    if after.references == 0 && after.mappings == 0 {
        handles().remove(&handle);
    }
    Some(after)
}

/// Records the end of a handle that nothing holds any more.
fn end(thread: &Thread, call: &Call, handle: u64, after: Handle) -> Option<Released> {
    if after.references != 0 || after.mappings != 0 {
        return None;
    }
    if after.alias {
        let what = Remark {
            ptr: handle,
            device: after.device,
            ..Remark::default()
        };
        record::remark(thread, call.api(), EventKind::ALIAS_END, after.level, what);
        multicast::forget(thread, call, handle);
        return None;
    }
    record::releasing(
        thread,
        call.api(),
        after.level,
        handle,
        EventFlags::VMM_HANDLE,
        0,
    )
}

/// What a release or an unmapping did, should it have to be undone.
#[derive(Default)]
struct Undo {
    ended: Vec<Released>,
    handles: Vec<(u64, Handle)>,
    mappings: Vec<(u64, Mapping)>,
}

impl Undo {
    /// One mapping less of a handle, with which it may end.
    fn unhold(&mut self, thread: &Thread, call: &Call, handle: u64) {
        let before = handles().get(&handle).map(|entry| *entry);
        self.handles.extend(before.map(|before| (handle, before)));
        let after = change(handle, |h| h.mappings = h.mappings.saturating_sub(1));
        self.ended
            .extend(after.and_then(|after| end(thread, call, handle, after)));
    }

    /// Undoes it: the real call failed.
    fn apply(self, thread: &Thread, call: &Call) {
        for (handle, before) in self.handles.into_iter().rev() {
            let ended = handles().insert(handle, before).is_none();
            if ended && before.alias {
                let what = Remark {
                    ptr: handle,
                    device: before.device,
                    ..Remark::default()
                };
                record::remark(thread, call.api(), EventKind::ALIAS, before.level, what);
            }
        }
        mappings().extend(self.mappings);
        for released in self.ended {
            record::cancel(thread, call.api(), released);
        }
    }
}

/// What a handle takes of a device; one of the host takes nothing.
fn taken_by(properties: Option<&CuMemAllocationProp>, bytes: usize) -> Takes {
    match properties.map(|properties| properties.location) {
        Some(location) if location.kind == CuMemLocationType::DEVICE => {
            Takes::on(driver::ordinal(CuDevice(location.id)), bytes as u64)
        }
        _ => Takes::nothing(),
    }
}

hook! {
    /// Physical memory with no address.
    Driver Required
    fn cuMemCreate(
        handle: *mut CuMemHandle,
        bytes: usize,
        properties: *const CuMemAllocationProp,
        flags: u64,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes {
        // SAFETY: null, or a structure that the driver is about to read.
        taken_by(unsafe { properties.as_ref() }, bytes)
    };
    with call, thread, result, held;
    before {}
    after {
        if !properties.is_null() {
            // SAFETY: checked for null; the driver has just read the same structure.
            let location = unsafe { (*properties).location };
            let on_device = location.kind == CuMemLocationType::DEVICE;
            let device =
                if on_device { driver::ordinal(CuDevice(location.id)) } else { DeviceOrdinal::NONE };
            let asked = Asked {
                level: if on_device { Level::DRIVER } else { Level::HOST },
                bytes: bytes as u64,
                owner: Owner::Named(device),
                flags: EventFlags::VMM_HANDLE,
            };
            seen::asked_for(&call, thread, result.0, asked, || {
                // SAFETY: the call succeeded, so the driver has just written there.
                let made = unsafe { (*handle).0 };
                let entry = Handle {
                    level: asked.level, device, alias: false, references: 1, mappings: 0,
                };
                handles().insert(made, entry);
                made
            });
        }
    }
}

hook! {
    /// One reference less.
    Driver Required
    fn cuMemRelease(handle: CuMemHandle) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let before = handles().get(&handle.0).map(|entry| *entry);
        before.map(|before| {
            let after = change(handle.0, |h| h.references = h.references.saturating_sub(1));
            let ended = after.and_then(|after| end(thread, &call, handle.0, after));
            Undo {
                ended: ended.into_iter().collect(),
                handles: vec![(handle.0, before)],
                mappings: Vec::new(),
            }
        })
    }
    after {
        match held {
            Some(Some(undo)) if !result.is_success() => undo.apply(thread, &call),
            Some(Some(_)) => context::may_linger(),
            _ => {}
        }
    }
}

hook! {
    /// One reference more, found by an address that is mapped to the handle.
    Driver Required
    fn cuMemRetainAllocationHandle(handle: *mut CuMemHandle, address: *mut c_void) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            change(unsafe { (*handle).0 }, |h| h.references += 1);
        }
    }
}

hook! {
    /// A handle on memory that another process or API made: an alias, counted nowhere.
    Driver Optional
    fn cuMemImportFromShareableHandle(
        handle: *mut CuMemHandle,
        shared: *mut c_void,
        kind: u32,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let made = unsafe { (*handle).0 };
            // A multicast object is told by no properties.
            let device = driver::handle_device(CuMemHandle(made))
                .unwrap_or_else(driver::current_device);
            // A driver may answer with a handle that this process already has.
            if change(made, |h| h.references += 1).is_none() {
                let entry = Handle {
                    level: Level::DRIVER, device, alias: true, references: 1, mappings: 0,
                };
                handles().insert(made, entry);
                let what = Remark { ptr: made, device, with_stacks: true, ..Remark::default() };
                record::remark(thread, call.api(), EventKind::ALIAS, Level::DRIVER, what);
            }
        }
    }
}

hook! {
    /// Gives a handle an address.
    Driver Required
    fn cuMemMap(
        address: CuDevicePtr,
        bytes: usize,
        offset: usize,
        handle: CuMemHandle,
        flags: u64,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            let bytes = bytes as u64;
            let known = change(handle.0, |h| h.mappings += 1);
            mappings().insert(address.0, Mapping { bytes, handle: handle.0 });
            let what = Remark {
                ptr: address.0,
                bytes,
                aux: handle.0,
                device: known.map_or(DeviceOrdinal::NONE, |h| h.device),
                flags: EventFlags::NONE,
                with_stacks: true,
            };
            record::remark(thread, call.api(), EventKind::MAP, Level::DRIVER, what);
        }
    }
}

hook! {
    /// Takes addresses back; one call may end several mappings.
    Driver Required
    fn cuMemUnmap(address: CuDevicePtr, bytes: usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let end_address = address.0.saturating_add(bytes as u64);
        let mut undo = Undo::default();
        {
            let mut all = mappings();
            undo.mappings
                .extend(all.range(address.0..end_address).map(|(at, mapping)| (*at, *mapping)));
            for (at, _) in &undo.mappings {
                all.remove(at);
            }
        }
        for place in 0..undo.mappings.len() {
            let Some((ptr, Mapping { bytes, handle })) = undo.mappings.get(place).copied() else {
                continue;
            };
            let device = device_of(handle).unwrap_or(DeviceOrdinal::NONE);
            let what = Remark { ptr, bytes, aux: handle, device, ..Remark::default() };
            record::remark(thread, call.api(), EventKind::UNMAP, Level::DRIVER, what);
            undo.unhold(thread, &call, handle);
        }
        Some(undo)
    }
    after {
        if let (Some(Some(undo)), false) = (held, result.is_success()) {
            for (at, mapping) in &undo.mappings {
                let (ptr, bytes, aux) = (*at, mapping.bytes, mapping.handle);
                let what = Remark { ptr, bytes, aux, ..Remark::default() };
                record::remark(thread, call.api(), EventKind::MAP, Level::DRIVER, what);
            }
            undo.apply(thread, &call);
        } else {
            context::may_linger();
        }
    }
}

/// Forgets the handles of a device whose last context has ended. Aliases end here; the end of what is
/// counted has been recorded.
pub(super) fn forget(thread: &Thread, call: &Call, device: DeviceOrdinal) {
    let aliases: Vec<(u64, Handle)> = handles()
        .iter()
        .filter(|handle| handle.device == device && handle.alias)
        .map(|handle| (*handle.key(), *handle.value()))
        .collect();
    handles().retain(|_, handle| handle.device != device);
    for (handle, gone) in aliases {
        let what = Remark {
            ptr: handle,
            device,
            ..Remark::default()
        };
        record::remark(thread, call.api(), EventKind::ALIAS_END, gone.level, what);
    }
    let mut all = mappings();
    all.retain(|_, mapping| handles().contains_key(&mapping.handle));
}

/// Takes note of a handle on memory that is counted elsewhere.
pub(super) fn imported(handle: u64, device: DeviceOrdinal) {
    let entry = Handle {
        level: Level::DRIVER,
        device,
        alias: true,
        references: 1,
        mappings: 0,
    };
    handles().insert(handle, entry);
}

/// The device of a handle, if it is known.
pub(super) fn device_of(handle: u64) -> Option<DeviceOrdinal> {
    handles().get(&handle).map(|entry| entry.device)
}

/// Takes note of a mapping that has no address.
pub(super) fn mapped(handle: u64) {
    change(handle, |h| h.mappings += 1);
}

/// Takes note of the end of such a mapping, and with it of what nothing holds any more.
pub(super) fn unmapped(thread: &Thread, call: &Call, handle: u64) {
    let after = change(handle, |h| h.mappings = h.mappings.saturating_sub(1));
    if let Some(after) = after {
        let _ = end(thread, call, handle, after);
    }
}

/// The handle behind a mapped address.
pub(super) fn handle_at(address: u64) -> Option<u64> {
    let all = mappings();
    let (at, mapping) = all.range(..=address).next_back()?;
    (address - at < mapping.bytes).then_some(mapping.handle)
}
