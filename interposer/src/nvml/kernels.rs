//! Which functions of which module have run: the first launch of one may load its code.
//!
//! A launch asks with each call, so the table is of fixed size and has no lock; a function that finds no
//! room in it counts as one that has run.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::collections::BTreeSet;

use crate::driver;
use crate::lock::{Guard, Lock};

const SLOTS: usize = 8192;
/// Places that a handle may be at.
const PROBES: usize = 16;
/// What a place holds whose function is gone; no handle is 1.
const GONE: u64 = 1;

/// Its code was seen to be on the card.
const LOADED: u8 = 1;
/// It was launched.
const LAUNCHED: u8 = 2;

/// A function or kernel.
struct Slot {
    /// 0: none yet.
    handle: AtomicU64,
    /// The module or library; 0: not known.
    owner: AtomicU64,
    state: AtomicU8,
}

struct Table([Slot; SLOTS]);

static TABLE: Table = Table(
    [const {
        Slot {
            handle: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            state: AtomicU8::new(0),
        }
    }; SLOTS],
);

impl Table {
    fn places(&self, handle: u64) -> impl Iterator<Item = &Slot> {
        let first = (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) as usize;
        (0..PROBES).filter_map(move |step| self.0.get((first + step) % SLOTS))
    }

    /// The function's place, or whether there is room for it.
    #[inline]
    fn find(&self, handle: u64) -> Result<&Slot, bool> {
        let mut room = false;
        for slot in self.places(handle) {
            match slot.handle.load(Ordering::Acquire) {
                known if known == handle => return Ok(slot),
                0 => return Err(true),
                GONE => room = true,
                _ => {}
            }
        }
        Err(room)
    }

    /// The function's place, taken now if it has none; `None` if there is no room.
    fn take(&self, handle: u64) -> Option<&Slot> {
        if let Ok(slot) = self.find(handle) {
            return Some(slot);
        }
        for slot in self.places(handle) {
            let now = slot.handle.load(Ordering::Acquire);
            if now == handle {
                return Some(slot);
            }
            if now <= GONE
                && slot
                    .handle
                    .compare_exchange(now, handle, Ordering::AcqRel, Ordering::Acquire)
                    .is_ok()
            {
                slot.owner.store(0, Ordering::Relaxed);
                slot.state.store(0, Ordering::Relaxed);
                return Some(slot);
            }
        }
        None
    }

    fn has_run(&self, handle: u64) -> bool {
        match self.find(handle) {
            Ok(slot) => slot.state.load(Ordering::Relaxed) & LAUNCHED != 0,
            Err(room) => !room,
        }
    }
}

/// Contexts whose stacks were asked to be larger: the driver makes them so at the next launch there.
fn stacks() -> Guard<'static, BTreeSet<u64>> {
    static STACKS: Lock<BTreeSet<u64>> = Lock::new(BTreeSet::new());
    STACKS.lock()
}

/// How many contexts those are, with the calls in progress that ask for larger stacks: their effect may
/// come before their return.
static ANY_STACKS: AtomicU64 = AtomicU64::new(0);

/// Whether this process has had more than one context: a kernel that belongs to none is then loaded into
/// each of them.
static MANY_CONTEXTS: AtomicBool = AtomicBool::new(false);

/// A context was born.
pub(crate) fn context_born() {
    static ONE: AtomicBool = AtomicBool::new(false);
    if ONE.swap(true, Ordering::AcqRel) {
        MANY_CONTEXTS.store(true, Ordering::Release);
    }
}

/// Under what the state of a function is kept: its handle, and the current context where there are many.
#[inline]
fn place(function: u64) -> u64 {
    if MANY_CONTEXTS.load(Ordering::Relaxed) {
        place_in(function, driver::current_context())
    } else {
        function
    }
}

/// Handles are addresses: no two contexts and functions are likely to make the same number.
fn place_in(function: u64, context: u64) -> u64 {
    function ^ context.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 2
}

/// Whether a launch of `function` can take no memory that is not accounted for.
#[inline]
pub(crate) fn has_run(function: u64) -> bool {
    ANY_STACKS.load(Ordering::Relaxed) == 0 && TABLE.has_run(place(function))
}

/// A function or kernel was got from a module or library.
pub(crate) fn got(function: u64, owner: u64) {
    if let Some(slot) = TABLE.take(function)
        && slot.owner.swap(owner, Ordering::AcqRel) != owner
    {
        slot.state.store(0, Ordering::Release);
    }
}

/// The module or library of a function; `None` if that is not known.
pub(crate) fn owner(function: u64) -> Option<u64> {
    let slot = TABLE.find(function).ok()?;
    Some(slot.owner.load(Ordering::Acquire)).filter(|owner| *owner != 0)
}

/// Whether a function's code was seen to be on the card.
pub(crate) fn is_loaded(function: u64) -> bool {
    TABLE
        .find(place(function))
        .is_ok_and(|slot| slot.state.load(Ordering::Acquire) & LOADED != 0)
}

/// A function's code is on the card.
pub(crate) fn loaded(function: u64) {
    set(function, LOADED);
}

/// Adds to a function's state. The place goes with the function's owner.
fn set(function: u64, state: u8) {
    let owner = owner(function);
    if let Some(slot) = TABLE.take(place(function)) {
        if let Some(owner) = owner {
            slot.owner.store(owner, Ordering::Release);
        }
        slot.state.fetch_or(state, Ordering::AcqRel);
    }
}

/// A function was launched.
pub(crate) fn launched(function: u64) {
    set(function, LOADED | LAUNCHED);
}

/// A module or library is gone, and its functions with it.
pub(crate) fn gone(owner: u64) {
    for slot in &TABLE.0 {
        if slot.owner.load(Ordering::Acquire) == owner {
            slot.owner.store(0, Ordering::Release);
            slot.state.store(0, Ordering::Release);
            slot.handle.store(GONE, Ordering::Release);
        }
    }
}

/// A context is gone: libraries' code may have to be loaded anew into the next one.
pub(crate) fn context_gone() {
    for slot in &TABLE.0 {
        slot.state.store(0, Ordering::Release);
    }
}

/// A call that asks for larger stacks, until they are noted or it has failed.
pub(crate) struct Asking;

impl Asking {
    pub(crate) fn begin() -> Self {
        ANY_STACKS.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ANY_STACKS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The stacks of a context are to be larger from its next launch on.
pub(crate) fn stacks_grow(context: u64) {
    if stacks().insert(context) {
        ANY_STACKS.fetch_add(1, Ordering::AcqRel);
    }
}

/// Whether a launch in `context` is the first since its stacks were asked to be larger; or the context has
/// ended, and there will be none.
pub(crate) fn stacks_grew(context: u64) -> bool {
    let grew = stacks().remove(&context);
    if grew {
        ANY_STACKS.fetch_sub(1, Ordering::AcqRel);
    }
    grew
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Box<Table> {
        Box::new(Table(core::array::from_fn(|_| Slot {
            handle: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            state: AtomicU8::new(0),
        })))
    }

    #[test]
    fn a_function_has_run_once_it_was_launched() {
        let table = table();
        assert!(!table.has_run(0x5000));
        let slot = table.take(0x5000).expect("room in an empty table");
        assert!(!table.has_run(0x5000));
        slot.state.fetch_or(LAUNCHED, Ordering::AcqRel);
        assert!(table.has_run(0x5000));
        assert!(!table.has_run(0x5010));
    }

    #[test]
    fn larger_stacks_of_any_number_of_contexts_are_awaited() {
        let contexts = 0x1000..0x1100;
        for context in contexts.clone() {
            let asking = Asking::begin();
            stacks_grow(context);
            stacks_grow(context);
            drop(asking);
        }
        assert_eq!(ANY_STACKS.load(Ordering::Acquire), 256);
        for context in contexts {
            assert!(stacks_grew(context) && !stacks_grew(context));
        }
        assert_eq!(ANY_STACKS.load(Ordering::Acquire), 0);
    }

    #[test]
    fn what_finds_no_room_counts_as_run() {
        let table = table();
        let taken = (2..400_000u64)
            .filter(|handle| table.take(*handle * 16).is_some())
            .count();
        assert!(taken > SLOTS / 2 && taken <= SLOTS, "{taken}");
        let without_room = (400_000..500_000u64)
            .map(|handle| handle * 16)
            .filter(|handle| table.find(*handle).is_err_and(|room| !room));
        assert!(without_room.clone().count() > 0);
        assert!(without_room.clone().all(|handle| table.has_run(handle)));
    }

    #[test]
    fn a_place_whose_function_is_gone_is_taken_again() {
        let table = table();
        let slot = table.take(0x5000).expect("room in an empty table");
        slot.state.store(LAUNCHED, Ordering::Release);
        slot.handle.store(GONE, Ordering::Release);
        assert!(!table.has_run(0x5000));
        let again = table.take(0x5000).expect("the same place");
        assert!(core::ptr::eq(slot, again));
        assert!(!table.has_run(0x5000));
    }
}
