//! Physical handles and what is mapped or bound to them. A handle is live for as long as it has references or mappings.

use core::hash::BuildHasherDefault;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use dashmap::DashMap;
use gpumem_capture::{DeviceOrdinal, EventFlags, EventKind, Level};
use rustc_hash::FxHasher;

use crate::call::Call;
use crate::record::{self, Released};
use crate::sideband::{self, Sideband};
use crate::thread::Thread;
use gpumem_capture::writer::lock::{Guard, Lock};

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
        let what = Sideband {
            ptr: handle,
            device: after.device,
            ..Sideband::default()
        };
        sideband::record(thread, call.api(), EventKind::ALIAS_END, after.level, what);
        unbind_all(thread, call, handle);
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
pub(super) struct Undo {
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
    pub(super) fn apply(self, thread: &Thread, call: &Call) {
        for (at, mapping) in &self.mappings {
            let (ptr, bytes, aux) = (*at, mapping.bytes, mapping.handle);
            let what = Sideband {
                ptr,
                bytes,
                aux,
                ..Sideband::default()
            };
            sideband::record(thread, call.api(), EventKind::MAP, Level::DRIVER, what);
        }
        for (handle, before) in self.handles.into_iter().rev() {
            let ended = handles().insert(handle, before).is_none();
            if ended && before.alias {
                let what = Sideband {
                    ptr: handle,
                    device: before.device,
                    ..Sideband::default()
                };
                sideband::record(thread, call.api(), EventKind::ALIAS, before.level, what);
            }
        }
        mappings().extend(self.mappings);
        for released in self.ended {
            record::cancel(thread, call.api(), released);
        }
    }
}

/// Where something is bound: object, device, offset in the object.
type Place = (u64, u8, usize);

/// The handles that are bound to multicast objects, never locked across a driver call.
fn bindings() -> Guard<'static, BTreeMap<Place, u64>> {
    static BINDINGS: Lock<BTreeMap<Place, u64>> = Lock::new(BTreeMap::new());
    BINDINGS.lock()
}

/// Takes note of what was bound to a multicast object, if it is a handle that is known.
pub(super) fn bound(object: u64, device: DeviceOrdinal, offset: usize, handle: Option<u64>) {
    if let Some(handle) = handle {
        mapped(handle);
        bindings().insert((object, device.0, offset), handle);
    }
}

/// Forgets what is bound to an object that has ended; what only it held ends with it.
fn unbind_all(thread: &Thread, call: &Call, object: u64) {
    let gone: Vec<u64> = {
        let mut all = bindings();
        let of_object = (object, 0, 0)..=(object, u8::MAX, usize::MAX);
        let places: Vec<Place> = all.range(of_object).map(|(place, _)| *place).collect();
        places
            .into_iter()
            .filter_map(|place| all.remove(&place))
            .collect()
    };
    for handle in gone {
        unmapped(thread, call, handle);
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
        let what = Sideband {
            ptr: handle,
            device,
            ..Sideband::default()
        };
        sideband::record(thread, call.api(), EventKind::ALIAS_END, gone.level, what);
    }
    let mut all = mappings();
    all.retain(|_, mapping| handles().contains_key(&mapping.handle));
}

/// Takes note of a handle; one on memory that is counted elsewhere is an `alias`.
pub(super) fn made(handle: u64, level: Level, device: DeviceOrdinal, alias: bool) {
    let entry = Handle {
        level,
        device,
        alias,
        references: 1,
        mappings: 0,
    };
    handles().insert(handle, entry);
}

/// One reference more. Whether the handle is known.
pub(super) fn retained(handle: u64) -> bool {
    change(handle, |h| h.references += 1).is_some()
}

/// One reference less, with which a handle may end; what to do if the call fails.
pub(super) fn releasing(thread: &Thread, call: &Call, handle: u64) -> Option<Undo> {
    let before = handles().get(&handle).map(|entry| *entry)?;
    let after = change(handle, |h| h.references = h.references.saturating_sub(1));
    let ended = after.and_then(|after| end(thread, call, handle, after));
    Some(Undo {
        ended: ended.into_iter().collect(),
        handles: vec![(handle, before)],
        mappings: Vec::new(),
    })
}

/// A handle was mapped; its device.
pub(super) fn mapped_at(at: u64, bytes: u64, handle: u64) -> DeviceOrdinal {
    let known = change(handle, |h| h.mappings += 1);
    mappings().insert(at, Mapping { bytes, handle });
    known.map_or(DeviceOrdinal::NONE, |h| h.device)
}

/// The mappings between two addresses are about to end; what to do if the call fails.
pub(super) fn unmapping(thread: &Thread, call: &Call, from: u64, to: u64) -> Undo {
    let mut undo = Undo::default();
    {
        let mut all = mappings();
        let ending = all.range(from..to).map(|(at, mapping)| (*at, *mapping));
        undo.mappings.extend(ending);
        for (at, _) in &undo.mappings {
            all.remove(at);
        }
    }
    for place in 0..undo.mappings.len() {
        let Some((ptr, Mapping { bytes, handle })) = undo.mappings.get(place).copied() else {
            continue;
        };
        let device = device_of(handle).unwrap_or(DeviceOrdinal::NONE);
        let what = Sideband {
            ptr,
            bytes,
            aux: handle,
            device,
            ..Sideband::default()
        };
        sideband::record(thread, call.api(), EventKind::UNMAP, Level::DRIVER, what);
        undo.unhold(thread, call, handle);
    }
    undo
}

/// What was bound there is no longer; what only that held ends with it.
pub(super) fn unbound(
    thread: &Thread,
    call: &Call,
    object: u64,
    device: DeviceOrdinal,
    offset: usize,
) {
    let gone = bindings().remove(&(object, device.0, offset));
    if let Some(handle) = gone {
        unmapped(thread, call, handle);
    }
}

/// The device of a handle, if it is known.
pub(super) fn device_of(handle: u64) -> Option<DeviceOrdinal> {
    handles().get(&handle).map(|entry| entry.device)
}

/// Takes note of a mapping that has no address.
fn mapped(handle: u64) {
    change(handle, |h| h.mappings += 1);
}

/// Takes note of the end of such a mapping, and with it of what nothing holds any more.
fn unmapped(thread: &Thread, call: &Call, handle: u64) {
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
