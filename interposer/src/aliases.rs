//! Aliases: memory of another process, device or API that this process can reach. Its bytes are counted
//! where they were asked for; here only the coming and going is recorded.
//!
//! No guard of the table is ever held across a driver call or across the recording of an event.

use core::hash::BuildHasherDefault;
use std::sync::OnceLock;

use dashmap::DashMap;
use gpumem_capture::{ApiId, DeviceOrdinal, EventFlags, EventKind, Level};
use rustc_hash::FxHasher;

use crate::call::Call;
use crate::driver;
use crate::sideband::{self, Sideband};
use crate::thread::Thread;

/// What is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alias {
    pub(crate) bytes: u64,
    pub(crate) device: DeviceOrdinal,
    /// The context that it was opened in; 0: it belongs to none, as pools and what comes from them.
    pub(crate) context: u64,
    pub(crate) flags: EventFlags,
    /// How often it was opened and not closed.
    opens: u32,
}

/// One opening less, should it have to be taken back.
pub(crate) struct Ended {
    ptr: u64,
    alias: Alias,
}

type Table = DashMap<u64, Alias, BuildHasherDefault<FxHasher>>;

/// By address, or by handle where the thing has none.
fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(Table::default)
}

/// Records that `bytes` of foreign memory can be reached at `ptr`: on the current context's device, or
/// where the pool lies.
pub(crate) fn begun(thread: &Thread, call: &Call, ptr: u64, bytes: u64, flags: EventFlags) {
    if ptr == 0 {
        return;
    }
    let again = match table().get_mut(&ptr) {
        Some(mut known) => {
            known.opens += 1;
            true
        }
        None => false,
    };
    if again {
        return;
    }
    let pooled = flags.contains(EventFlags::STREAM_ORDERED);
    let device = match pooled && bytes > 0 {
        true => driver::device_of(ptr),
        false => driver::current_device(),
    };
    let alias = Alias {
        bytes,
        device,
        context: if pooled { 0 } else { driver::current_context() },
        flags,
        opens: 1,
    };
    table().insert(ptr, alias);
    let what = Sideband {
        aux: call.caller(),
        with_stacks: true,
        ..remark_of(ptr, &alias)
    };
    sideband::record(thread, call.api(), EventKind::ALIAS, Level::DRIVER, what);
}

/// Records that an alias is about to be closed; `None` if nothing of it is known at `ptr`.
pub(crate) fn ending(thread: &Thread, api: ApiId, ptr: u64) -> Option<Ended> {
    let alias = {
        let mut known = table().get_mut(&ptr)?;
        known.opens = known.opens.saturating_sub(1);
        *known
    };
    if alias.opens == 0 {
        table().remove(&ptr);
        let what = remark_of(ptr, &alias);
        sideband::record(thread, api, EventKind::ALIAS_END, Level::DRIVER, what);
    }
    Some(Ended { ptr, alias })
}

/// Settles a closing by the call's result: it stands, or is taken back.
pub(crate) fn settle(thread: &Thread, api: ApiId, succeeded: bool, held: Option<Option<Ended>>) {
    if let (Some(Some(ended)), false) = (held, succeeded) {
        take_back(thread, api, ended);
    }
}

/// Takes a closing back: the real call failed.
pub(crate) fn take_back(thread: &Thread, api: ApiId, ended: Ended) {
    let Ended { ptr, mut alias } = ended;
    let closed = alias.opens == 0;
    alias.opens += 1;
    table().insert(ptr, alias);
    if closed {
        let what = remark_of(ptr, &alias);
        sideband::record(thread, api, EventKind::ALIAS, Level::DRIVER, what);
    }
}

/// Records the end of every alias that `wanted` picks: its context has ended.
pub(crate) fn end_all(thread: &Thread, api: ApiId, wanted: impl Fn(&Alias) -> bool) {
    let gone: Vec<(u64, Alias)> = table()
        .iter()
        .filter(|entry| wanted(entry.value()))
        .map(|entry| (*entry.key(), *entry.value()))
        .collect();
    for (ptr, alias) in gone {
        if table().remove(&ptr).is_some() {
            let what = remark_of(ptr, &alias);
            sideband::record(thread, api, EventKind::ALIAS_END, Level::DRIVER, what);
        }
    }
}

fn remark_of(ptr: u64, alias: &Alias) -> Sideband {
    Sideband {
        ptr,
        bytes: alias.bytes,
        device: alias.device,
        flags: alias.flags,
        ..Sideband::default()
    }
}
