//! Holdings: what grows and shrinks under one name, such as a pool or a context.

use std::collections::BTreeMap;

use gpumem_capture::{Attempt, DeviceOrdinal, EventFlags, EventKind, Refused};

use super::cause::{Cause, Change};
use crate::lock::{Guard, Lock};

/// What a holding is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holding {
    pub(crate) kind: Kind,
    /// Its handle: see [`EventKind::RESIZE`].
    pub(crate) ptr: u64,
}

/// Of which kind a holding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A memory pool.
    Pool,
    /// What stands behind the graphs of a device.
    Graphs,
    /// A context, with its limits.
    Context,
    /// A module or library of kernels.
    Module,
}

impl Kind {
    fn flags(self) -> EventFlags {
        match self {
            Self::Pool => EventFlags::STREAM_ORDERED,
            Self::Graphs => EventFlags::GRAPH,
            Self::Context => EventFlags::CONTEXT,
            Self::Module => EventFlags::MODULE,
        }
    }
}

/// The holdings that are not empty: device and bytes.
type Sizes = BTreeMap<Holding, (DeviceOrdinal, u64)>;

fn sizes() -> Guard<'static, Sizes> {
    static SIZES: Lock<Sizes> = Lock::new(BTreeMap::new());
    SIZES.lock()
}

/// A holding's size before and after a change.
#[derive(Clone, Copy)]
pub(crate) struct Resized {
    pub(crate) before: u64,
    pub(crate) now: u64,
}

/// Sets a holding's size to what `to` makes of the one that it has; `to` may be asked several times. `extra` flags
/// qualify the change.
pub(crate) fn resize(
    cause: &Cause<'_>,
    device: DeviceOrdinal,
    holding: Holding,
    extra: EventFlags,
    to: impl Fn(u64) -> u64,
) -> Resized {
    cause.in_order(|attempt| resize_without_waiting(attempt, cause, device, holding, extra, &to))
}

/// The same without waiting, for a caller that holds a lock of its own: see [`Cause::in_order`].
pub(crate) fn resize_without_waiting(
    attempt: Attempt,
    cause: &Cause<'_>,
    device: DeviceOrdinal,
    holding: Holding,
    extra: EventFlags,
    to: impl Fn(u64) -> u64,
) -> Result<Resized, Refused> {
    let mut sizes = sizes();
    let before = sizes.get(&holding).map_or(0, |(_, bytes)| *bytes);
    let now = to(before);
    if now != before {
        let change = Change {
            bytes: now,
            aux: before,
            flags: holding.kind.flags().with(extra),
        };
        let (kind, ptr) = (EventKind::RESIZE, holding.ptr);
        cause.record_without_waiting(attempt, kind, device, ptr, change)?;
        if now == 0 {
            sizes.remove(&holding);
        } else {
            sizes.insert(holding, (device, now));
        }
    }
    Ok(Resized { before, now })
}

/// A holding that is not empty: its device and size.
pub(crate) fn get(holding: Holding) -> Option<(DeviceOrdinal, u64)> {
    sizes().get(&holding).copied()
}

/// A holding's size now.
pub(crate) fn size(holding: Holding) -> u64 {
    sizes().get(&holding).map_or(0, |(_, bytes)| *bytes)
}

/// The holdings of a device, of the kinds that `wanted` picks.
pub(crate) fn of_device(device: DeviceOrdinal, wanted: impl Fn(Kind) -> bool) -> Vec<Holding> {
    sizes()
        .iter()
        .filter(|(holding, (of, _))| *of == device && wanted(holding.kind))
        .map(|(holding, _)| *holding)
        .collect()
}

/// What a pool, or the graphs of a device, hold by the driver's word.
pub(super) struct Figure {
    pub(super) holding: Holding,
    pub(super) device: DeviceOrdinal,
    /// `None`: it is gone.
    pub(super) bytes: Option<u64>,
}
