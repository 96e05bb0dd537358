//! One hooked call, from its entry to its return or to the exception that leaves it.

use core::sync::atomic::{AtomicU64, Ordering};

use gpumem_capture::ApiId;
use gpumem_unwind::Registers;

use crate::nvml::remainder;
use crate::physical;
use crate::symbols::table::Hook;
use crate::thread;

/// Calls so far that may move memory and are recorded under their own name, and those of them that have
/// returned, with their events recorded.
static ENTERED: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicU64 = AtomicU64::new(0);

/// While no such call is in progress on any thread: how many there were. In between, what the driver has
/// done and what is recorded differ.
pub(crate) fn quiet() -> Option<u64> {
    let left = LEFT.load(Ordering::Acquire);
    let entered = ENTERED.load(Ordering::Acquire);
    (entered == left).then_some(entered)
}

/// Calls so far that synchronise, in which pools give back what they do not use, and those of them that
/// have returned.
static WAITS: AtomicU64 = AtomicU64::new(0);
static WAITED: AtomicU64 = AtomicU64::new(0);

/// How many calls there were by some moment. Two that are equal have none between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    entered: u64,
    waits: u64,
}

/// This moment, if no more than so many calls are in progress.
fn moment(at_most: u64) -> Option<Moment> {
    let (left, waited) = (LEFT.load(Ordering::SeqCst), WAITED.load(Ordering::SeqCst));
    let entered = ENTERED.load(Ordering::SeqCst);
    let mut waits = WAITS.load(Ordering::SeqCst);
    let mut in_progress = entered.wrapping_sub(left);
    if physical::anything_to_settle() {
        in_progress = in_progress.wrapping_add(waits.wrapping_sub(waited));
    } else {
        waits = 0;
    }
    (in_progress <= at_most).then_some(Moment { entered, waits })
}

/// This moment, if no call is in progress that may move memory, nor one that synchronises where that may.
pub(crate) fn still() -> Option<Moment> {
    moment(0)
}

/// This moment, if this thread's call is the only one in progress.
pub(crate) fn alone() -> Option<Moment> {
    moment(1)
}

/// Work of our own that changes figures: as long as it lasts no call is alone.
pub(crate) struct OwnWork;

impl OwnWork {
    pub(crate) fn begin() -> Self {
        ENTERED.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for OwnWork {
    fn drop(&mut self) {
        LEFT.fetch_add(1, Ordering::SeqCst);
    }
}

/// Where the beginning and the end of a call are counted, if it may move memory.
fn counters_of(hook: &Hook) -> Option<(&'static AtomicU64, &'static AtomicU64)> {
    if hook.moves_memory {
        Some((&ENTERED, &LEFT))
    } else {
        hook.waits().then_some((&WAITS, &WAITED))
    }
}

/// A hooked call in progress on this thread.
pub(crate) struct Call {
    api: u16,
    caller: u64,
    /// Where the stack of the call around this one was taken from.
    around: Registers,
    allocated_before: u32,
    driver_calls_before: u32,
    outermost: bool,
    /// Where its end is counted: [`LEFT`] or [`WAITED`]; `None`: within another call.
    counter: Option<&'static AtomicU64>,
    /// The release that an outer call had claimed before this one claimed its own.
    claimed_before: Option<u64>,
}

impl Call {
    /// Enters a call of `hook` that will return to `caller`.
    pub(crate) fn enter(hook: &'static Hook, caller: Registers) -> Self {
        hook.called(caller.pc as usize);
        thread::with(|thread| {
            let depth = thread.depth.get();
            let driver_calls = thread.driver_calls.get();
            if hook.is_driver() {
                thread.driver_calls.set(driver_calls.wrapping_add(1));
            }
            thread.depth.set(depth + 1);
            let counters = if depth == 0 { counters_of(hook) } else { None };
            if depth == 0 {
                thread.api.set(hook.id);
                thread.caller.set(caller.pc);
                if let Some((begun, _)) = counters {
                    begun.fetch_add(1, Ordering::SeqCst);
                }
            }
            Self {
                api: thread.api.get(),
                caller: thread.caller.get(),
                around: thread.entry.replace(caller),
                allocated_before: thread.allocated.get(),
                driver_calls_before: driver_calls,
                outermost: depth == 0,
                counter: counters.map(|(_, ended)| ended),
                claimed_before: None,
            }
        })
    }

    /// The name under which this call's event is recorded: the outermost function.
    pub(crate) fn api(&self) -> ApiId {
        ApiId(self.api)
    }

    /// The address in the code of whoever called the outermost function.
    pub(crate) fn caller(&self) -> u64 {
        self.caller
    }

    /// Whether an inner hook has recorded an allocation since this call began.
    pub(crate) fn inner_allocated(&self) -> bool {
        thread::with(|t| t.allocated.get() != self.allocated_before)
    }

    /// Tells outer hooks that the allocation is recorded.
    pub(crate) fn note_allocated(&self) {
        thread::with(|t| t.allocated.set(t.allocated.get().wrapping_add(1)));
    }

    /// Whether a hook of the driver was called since this call of the runtime began.
    pub(crate) fn reached_driver(&self) -> bool {
        thread::with(|t| t.driver_calls.get() != self.driver_calls_before)
    }

    /// Claims the recording of `pointer`'s release; false if an outer hook has it.
    pub(crate) fn claim_release(&mut self, pointer: u64) -> bool {
        let before = thread::with(|t| t.releasing.replace(pointer));
        if before == pointer {
            return false;
        }
        self.claimed_before = Some(before);
        true
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(counter) = self.counter {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        thread::with(|thread| {
            thread.depth.set(thread.depth.get().saturating_sub(1));
            thread.entry.set(self.around);
            if let Some(before) = self.claimed_before {
                thread.releasing.set(before);
            }
            if self.outermost {
                thread.releasing.set(0);
                thread.depth.set(0);
                thread.api.set(0);
            }
        });
        if self.counter.is_some() && remainder::any() {
            let _ = thread::in_hook(|_| remainder::put_right());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::{memory, runtime};

    fn at(pc: u64) -> Registers {
        Registers {
            pc,
            ..Registers::default()
        }
    }

    #[test]
    fn an_inner_call_goes_by_the_outermost_name() {
        let outer = Call::enter(&runtime::cudaMalloc::HOOK, at(8));
        assert!(!outer.reached_driver());
        {
            let inner = Call::enter(&memory::cuMemAlloc_v2::HOOK, at(16));
            assert_eq!(inner.api(), ApiId(runtime::cudaMalloc::HOOK.id));
            assert_eq!(inner.caller(), 8);
            assert!(!outer.inner_allocated());
            assert!(outer.reached_driver());
            inner.note_allocated();
        }
        assert!(outer.inner_allocated());
        drop(outer);
        let alone = Call::enter(&memory::cuMemAlloc_v2::HOOK, at(8));
        assert_eq!(alone.api(), ApiId(memory::cuMemAlloc_v2::HOOK.id));
        assert!(!alone.inner_allocated());
    }

    #[test]
    fn a_release_belongs_to_the_outermost_call() {
        let mut outer = Call::enter(&runtime::cudaFree::HOOK, at(8));
        assert!(outer.claim_release(64));
        {
            let mut inner = Call::enter(&memory::cuMemFree_v2::HOOK, at(8));
            assert!(!inner.claim_release(64));
            let mut other = Call::enter(&memory::cuMemFree_v2::HOOK, at(8));
            assert!(other.claim_release(128));
            drop(other);
            let mut later = Call::enter(&memory::cuMemFree_v2::HOOK, at(8));
            assert!(!later.claim_release(64));
        }
        drop(outer);
        let mut again = Call::enter(&memory::cuMemFree_v2::HOOK, at(8));
        assert!(again.claim_release(64));
    }

    #[test]
    fn a_call_ends_when_an_exception_leaves_it() {
        let left = std::panic::catch_unwind(|| {
            let _call = Call::enter(&runtime::cudaMalloc::HOOK, at(8));
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(left.is_err());
        let alone = Call::enter(&memory::cuMemAlloc_v2::HOOK, at(8));
        assert_eq!(alone.api(), ApiId(memory::cuMemAlloc_v2::HOOK.id));
    }
}
