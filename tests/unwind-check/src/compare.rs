//! Takes a stack with both unwinders and compares them.

use core::hash::Hasher;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::hash::DefaultHasher;

use gpumem_unwind::modules::Span;
use gpumem_unwind::{Registers, Stack, modules};

use crate::counts::{COUNTS, Cause, Entry, add};
use crate::seen::{Known, Seen};
use crate::thread::{self, Tools};
use crate::{cause, mismatch, pages};

/// Calls per stack; 0: no comparisons.
static EVERY: AtomicU32 = AtomicU32::new(0);
/// Hashes with the fingerprints of their stacks, and fingerprints with hashes.
static OF_HASHES: AtomicPtr<Seen> = AtomicPtr::new(core::ptr::null_mut());
static OF_STACKS: AtomicPtr<Seen> = AtomicPtr::new(core::ptr::null_mut());

/// A planted fault, which the check must detect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A wrong frame in every stack of eight frames or more.
    Frame,
    /// `dlclose` does not look for unloaded modules.
    Unloads,
}

static FAULT: AtomicU8 = AtomicU8::new(Fault::None as u8);

/// Whether that fault is planted.
pub(crate) fn has_fault(fault: Fault) -> bool {
    FAULT.load(Ordering::Relaxed) == fault as u8
}

/// Starts comparisons, at one of `every` calls on average.
pub(crate) fn begin(every: u32, fault: Fault) {
    FAULT.store(fault as u8, Ordering::Relaxed);
    thread::prepare();
    for table in [&OF_HASHES, &OF_STACKS] {
        // SAFETY: all zeros are an empty table.
        match unsafe { pages::zeroed() } {
            Some(empty) => table.store(empty, Ordering::Release),
            None => return,
        }
    }
    EVERY.store(every.max(1), Ordering::Release);
}

/// Stops comparisons.
pub(crate) fn end() {
    EVERY.store(0, Ordering::Release);
}

/// Compares at one of [`EVERY`] calls on average.
#[inline]
pub(crate) fn sometimes(entry: Entry, from: Registers) {
    let every = EVERY.load(Ordering::Acquire);
    if every != 0 && thread::is_due(every) {
        thread::with(|tools| both(tools, entry, from));
    }
}

/// Compares at every call.
pub(crate) fn always(entry: Entry, from: Registers) {
    if EVERY.load(Ordering::Acquire) != 0 {
        thread::with(|tools| both(tools, entry, from));
    }
}

/// The addresses of this library.
fn own() -> Span {
    modules::find(own as *const () as u64).unwrap_or(Span::NONE)
}

#[inline(never)]
fn both(tools: &mut Tools, entry: Entry, from: Registers) {
    let own = own();
    if own.contains(from.pc) {
        return; // the standard library inside this one
    }
    let left_before = tools.unwinder.system_stacks();
    let taken = tools.unwinder.take(Some(from), Some(own));
    tools.reference.take(from, own);
    let len = tools.unwinder.frames(&mut tools.ours);
    if let Some(frame) = tools.ours.get_mut(7)
        && has_fault(Fault::Frame)
    {
        *frame += 1;
    }
    let ours = tools.ours.get(..len).unwrap_or_default();
    let reference = tools.reference.frames();
    let same = len == taken.len
        && taken.truncated == tools.reference.truncated
        && ours.iter().eq(reference.iter().map(|frame| &frame.pc));
    let by_system = tools.unwinder.system_stacks() != left_before;
    if !same && add(&COUNTS.mismatches, 1) < mismatch::PRINTED {
        mismatch::print(ours, reference, taken, tools.reference.truncated, by_system);
    }
    remember(taken, ours);
    if by_system {
        let cause = cause::of(tools, own);
        if let Some(count) = COUNTS.by_system.get(cause as usize) {
            add(count, 1);
        }
        if let Cause::Rule = cause {
            cause::find_culprit(tools, own);
        }
        return;
    }
    if let Some(count) = COUNTS.compared.get(entry as usize) {
        add(count, 1);
    }
    add(&COUNTS.frames, len as u64);
    COUNTS.deepest.fetch_max(len as u64, Ordering::Relaxed);
    add(&COUNTS.truncated, taken.truncated.into());
}

/// Counts different stacks with the same hash, and stacks whose hash changed.
fn remember(taken: Stack, frames: &[u64]) {
    let mut hasher = DefaultHasher::new();
    frames.iter().for_each(|frame| hasher.write_u64(*frame));
    let fingerprint = hasher.finish();
    // SAFETY: made in `begin`, never freed.
    let tables = unsafe {
        (
            OF_HASHES.load(Ordering::Acquire).as_ref(),
            OF_STACKS.load(Ordering::Acquire).as_ref(),
        )
    };
    let (Some(of_hashes), Some(of_stacks)) = tables else {
        return;
    };
    if of_hashes.note(taken.hash, fingerprint) == Known::Other {
        add(&COUNTS.shared_hashes, 1);
    }
    match of_stacks.note(fingerprint, taken.hash) {
        Known::New => add(&COUNTS.distinct, 1),
        Known::Other => add(&COUNTS.changed_hashes, 1),
        Known::Same | Known::Full => 0,
    };
}
