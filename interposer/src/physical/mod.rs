//! The second ledger: what the card gave, beside what programs asked for.
//!
//! | part | bytes | known by |
//! |---|---|---|
//! | [`pages`] | 2 MiB pages under plain device memory | the addresses that the driver gives |
//! | handles | `cuMemCreate`'s bytes | the call itself |
//! | [`pools`] | what each memory pool holds from the device | `cuMemPoolGetAttribute` |
//! | [`graphs`] | what stands behind graphs' memory nodes | `cuDeviceGetGraphMemAttribute` |
//! | the tracker | contexts, modules: what no call says | readings of the card ([`gpumem_tracker`]) |
//!
//! Every change is an event at the physical level, recorded in the order in which the figures changed:
//! a part's lock is held while its event is recorded, but never while it waits for room, nor across a call
//! of the driver. Where managed memory resides nobody but the driver knows, so it is not here.

mod cause;
mod figure;
pub(crate) mod graphs;
mod pages;
pub(crate) mod pools;

use core::sync::atomic::{AtomicU64, Ordering};

use gpumem_capture::{DeviceOrdinal, EventFlags, EventKind, Level};

pub(crate) use self::cause::Cause;
use self::cause::Change;
use crate::live::{self, Block, Place};
use crate::tracked;

/// How the card stands behind a block.
enum Behind {
    /// Pages that other blocks may share.
    Pages,
    /// As many bytes of its own.
    Own(u64),
    /// Something that is counted by itself, or not known.
    Other,
}

fn behind(place: Place, block: &Block) -> Behind {
    const OTHERS: [EventFlags; 3] = [
        EventFlags::STREAM_ORDERED,
        EventFlags::GRAPH,
        EventFlags::MANAGED,
    ];
    if place.level != Level::DRIVER || OTHERS.iter().any(|flag| block.flags.contains(*flag)) {
        Behind::Other
    } else if place.vmm {
        Behind::Own(block.bytes)
    } else if block.flags.contains(EventFlags::ARRAY) {
        Behind::Own(pages::whole(block.bytes))
    } else {
        Behind::Pages
    }
}

/// Flags of a block of its own: of which kind it is.
fn own_flags(block: &Block) -> EventFlags {
    let both = EventFlags::VMM_HANDLE.with(EventFlags::ARRAY);
    EventFlags(block.flags.0 & both.0)
}

/// A block has become live: after its own event.
pub(crate) fn gained(cause: &Cause<'_>, place: Place, block: &Block) {
    match behind(place, block) {
        Behind::Pages => pages::gained(cause, block.device, place.ptr, block.bytes),
        Behind::Own(bytes) => {
            let (aux, flags) = (0, own_flags(block));
            let change = Change { bytes, aux, flags };
            cause.record(EventKind::ALLOC, block.device, place.ptr, change);
        }
        Behind::Other => {}
    }
}

/// A block is about to be released: after its own event.
pub(crate) fn lost(cause: &Cause<'_>, place: Place, block: &Block) {
    match behind(place, block) {
        Behind::Pages => pages::lost(cause, block.device, place.ptr, block.bytes),
        Behind::Own(bytes) => {
            let (aux, flags) = (0, own_flags(block));
            let change = Change { bytes, aux, flags };
            cause.record(EventKind::FREE, block.device, place.ptr, change);
        }
        Behind::Other => {}
    }
}

/// The most that managed memory can take of a device.
pub(crate) fn managed(device: DeviceOrdinal) -> u64 {
    if !live::has_managed() {
        return 0;
    }
    let of_device = |_: &Place, block: &Block| {
        block.device == device && block.flags.contains(EventFlags::MANAGED)
    };
    live::matching(of_device)
        .into_iter()
        .filter_map(live::at)
        .map(|block| pages::whole(block.bytes))
        .sum()
}

/// Takes note of what the driver may have moved by itself: pools and graphs, where there are any. What
/// shrank is noted first, for it made room for what grew.
///
/// The figures are asked for with no lock held, so threads that settle at once could record an older
/// one last. The one that began last records: its answer has in it whatever the others' calls did.
pub(crate) fn settle(cause: &Cause<'_>) {
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    if !anything_to_settle() {
        return;
    }
    let ticket = BEGUN.fetch_add(1, Ordering::AcqRel) + 1;
    // Looked at where no other can record: one that begins later records later.
    let last = || BEGUN.load(Ordering::Acquire) == ticket;
    let mut figures = pools::figures(cause.session);
    figures.extend(graphs::figures(cause.session));
    tracked::apply(cause.session, |tracker| {
        if !last() {
            return;
        }
        for growth in [false, true] {
            for figure in &figures {
                let bytes = figure.bytes.unwrap_or(0);
                if (bytes > tracker.bytes(figure.reservation)) == growth {
                    tracker.reserved(figure.device, figure.reservation, bytes, cause.origin());
                }
            }
        }
    });
    if last() {
        for figure in figures.iter().filter(|figure| figure.bytes.is_none()) {
            pools::forget(figure.reservation.handle);
        }
    }
}

/// Whether [`settle`] would have anything to ask.
#[inline]
pub(crate) fn anything_to_settle() -> bool {
    pools::any() || graphs::any()
}
