//! One hooked call, from its entry to its return or to the exception that leaves it.
//!
//! A program may also leave a call by longjmp, past all of our frames. Then no recorder code runs, and the
//! thread would seem to be in that call permanently. The next call on the thread finds that it is not below the
//! outermost one on the stack, as every nested call must be, and abandons that one.

use core::sync::atomic::Ordering;

use gpumem_capture::ApiId;
use gpumem_tracker::Interest;
use gpumem_unwind::Registers;

use crate::call_counts::CALLS;
use crate::hook::Hook;
use crate::session;
use crate::thread::{self, Thread};

/// The number of calls up to some time. Equal values have no call in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallsSoFar {
    entered: u64,
    waits: u64,
}

/// Whether no call that may change memory is in progress on any thread.
pub(crate) fn is_quiet() -> bool {
    let left = CALLS.left.load(Ordering::Acquire);
    CALLS.entered.load(Ordering::Acquire) == left
}

/// The current number, if no call is in progress that may change memory, except this thread's own, nor one that
/// synchronises where that may change memory.
pub(crate) fn still(thread: &Thread) -> Option<CallsSoFar> {
    let own =
        u64::from(thread.depth.get() != 0 && Counted::from_thread(thread) != Counted::Nowhere);
    let (left, waited) = (
        CALLS.left.load(Ordering::SeqCst),
        CALLS.waited.load(Ordering::SeqCst),
    );
    let entered = CALLS.entered.load(Ordering::SeqCst);
    let mut waits = CALLS.waits.load(Ordering::SeqCst);
    let mut in_progress = entered.wrapping_sub(left);
    if has_questions() {
        in_progress = in_progress.wrapping_add(waits.wrapping_sub(waited));
    } else {
        waits = 0;
    }
    (in_progress <= own).then_some(CallsSoFar { entered, waits })
}

/// Whether there are pools or graphs, which free unused memory implicitly.
fn has_questions() -> bool {
    let session = session::session();
    session.is_some_and(|session| session.interest().has(Interest::QUESTIONS))
}

/// The counters for the start and the end of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Counted {
    Nowhere,
    /// It may change memory.
    Moving,
    /// It synchronises.
    Waiting,
}

impl Counted {
    fn of(hook: &Hook) -> Self {
        if hook.moves_memory {
            Self::Moving
        } else if hook.waits() {
            Self::Waiting
        } else {
            Self::Nowhere
        }
    }

    /// The kind of the outermost call on the thread.
    fn from_thread(thread: &Thread) -> Self {
        match thread.counted.get() {
            n if n == Self::Moving as u8 => Self::Moving,
            n if n == Self::Waiting as u8 => Self::Waiting,
            _ => Self::Nowhere,
        }
    }

    /// Counts the start of a call.
    #[inline]
    fn begin(self) {
        match self {
            Self::Nowhere => {}
            Self::Moving => _ = CALLS.entered.fetch_add(1, Ordering::SeqCst),
            Self::Waiting => _ = CALLS.waits.fetch_add(1, Ordering::SeqCst),
        }
    }

    /// Counts the end of a call.
    fn end(self) {
        match self {
            Self::Nowhere => {}
            Self::Moving => _ = CALLS.left.fetch_add(1, Ordering::SeqCst),
            Self::Waiting => _ = CALLS.waited.fetch_add(1, Ordering::SeqCst),
        }
    }
}

/// Whether this thread is on its usual stack, where nested calls have their frames below the outer ones. The
/// alternate stack of a signal handler may be anywhere.
#[cold]
fn is_on_the_usual_stack() -> bool {
    // SAFETY: an all-zero structure is a valid value of it.
    let mut stack: libc::stack_t = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is valid for writing, and nothing is set.
    let asked = unsafe { libc::sigaltstack(core::ptr::null(), &raw mut stack) };
    asked == 0 && stack.ss_flags & libc::SS_ONSTACK == 0
}

/// Ends the outermost call on this thread, which will not return.
#[cold]
fn abandon(thread: &Thread) {
    Counted::from_thread(thread).end();
    thread.abandoned.set(thread.abandoned.get().wrapping_add(1));
    thread.entry.set(Registers::default());
    thread.releasing.set(0);
    thread.depth.set(0);
    thread.api.set(0);
}

/// A hooked call in progress on this thread.
pub(crate) struct Call {
    api: u16,
    caller: u64,
    /// The registers from which the stack of the outer call was captured.
    around: Registers,
    allocated_before: u32,
    driver_calls_before: u32,
    outermost: bool,
    counted: Counted,
    /// The thread's counter at the start: a different value later means that this call was abandoned.
    abandoned: u32,
    /// The release that an outer call had claimed before this call claimed one.
    claimed_before: Option<u64>,
}

impl Call {
    /// Enters a call of `hook` that will return to `caller`.
    pub(crate) fn enter(hook: &'static Hook, caller: Registers) -> Self {
        hook.called(caller.pc as usize);
        thread::with(|thread| {
            if thread.depth.get() != 0
                && caller.sp >= thread.outermost_sp.get()
                && is_on_the_usual_stack()
            {
                abandon(thread);
            }
            let depth = thread.depth.get();
            let driver_calls = thread.driver_calls.get();
            if hook.is_driver() {
                thread.driver_calls.set(driver_calls.wrapping_add(1));
            }
            thread.depth.set(depth + 1);
            let mut counted = Counted::Nowhere;
            if depth == 0 {
                counted = Counted::of(hook);
                thread.api.set(hook.id());
                thread.caller.set(caller.pc);
                // If it is unknown, no frame is above it.
                let sp = if caller.sp == 0 { u64::MAX } else { caller.sp };
                thread.outermost_sp.set(sp);
                thread.counted.set(counted as u8);
                counted.begin();
            }
            Self {
                api: thread.api.get(),
                caller: thread.caller.get(),
                around: thread.entry.replace(caller),
                allocated_before: thread.allocated.get(),
                driver_calls_before: driver_calls,
                outermost: depth == 0,
                counted,
                abandoned: thread.abandoned.get(),
                claimed_before: None,
            }
        })
    }

    /// The name under which this call's event is recorded: the outermost function.
    pub(crate) fn api(&self) -> ApiId {
        ApiId(self.api)
    }

    /// The return address in the caller of the outermost function.
    pub(crate) fn caller(&self) -> u64 {
        self.caller
    }

    /// Whether an inner hook has recorded an allocation since this call began.
    pub(crate) fn inner_allocated(&self) -> bool {
        thread::with(|t| t.allocated.get() != self.allocated_before)
    }

    /// Notifies outer hooks that the allocation is recorded.
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
        if thread::with(|thread| thread.abandoned.get() != self.abandoned) {
            return;
        }
        self.counted.end();
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::{memory, runtime};

    /// A return address; higher values are deeper calls.
    fn at(pc: u64) -> Registers {
        Registers {
            pc,
            sp: 4096 - pc,
            ..Registers::default()
        }
    }

    #[test]
    fn an_inner_call_goes_by_the_outermost_name() {
        let outer = Call::enter(&runtime::cudaMalloc::HOOK, at(8));
        assert!(!outer.reached_driver());
        {
            let inner = Call::enter(&memory::cuMemAlloc_v2::HOOK, at(16));
            assert_eq!(inner.api(), ApiId(runtime::cudaMalloc::HOOK.id()));
            assert_eq!(inner.caller(), 8);
            assert!(!outer.inner_allocated());
            assert!(outer.reached_driver());
            inner.note_allocated();
        }
        assert!(outer.inner_allocated());
        drop(outer);
        let alone = Call::enter(&memory::cuMemAlloc_v2::HOOK, at(8));
        assert_eq!(alone.api(), ApiId(memory::cuMemAlloc_v2::HOOK.id()));
        assert!(!alone.inner_allocated());
    }

    #[test]
    fn a_release_belongs_to_the_outermost_call() {
        let mut outer = Call::enter(&runtime::cudaFree::HOOK, at(8));
        assert!(outer.claim_release(64));
        {
            let mut inner = Call::enter(&memory::cuMemFree_v2::HOOK, at(16));
            assert!(!inner.claim_release(64));
            let mut other = Call::enter(&memory::cuMemFree_v2::HOOK, at(24));
            assert!(other.claim_release(128));
            drop(other);
            let mut later = Call::enter(&memory::cuMemFree_v2::HOOK, at(16));
            assert!(!later.claim_release(64));
        }
        drop(outer);
        let mut again = Call::enter(&memory::cuMemFree_v2::HOOK, at(8));
        assert!(again.claim_release(64));
    }

    /// Like `at`, from a frame at that stack pointer.
    fn from(sp: u64) -> Registers {
        Registers {
            pc: 8,
            sp,
            ..Registers::default()
        }
    }

    #[test]
    fn a_call_left_by_longjmp_is_given_up() {
        let mut left = Call::enter(&runtime::cudaFree::HOOK, from(1000));
        assert!(left.claim_release(64));
        let inner = Call::enter(&memory::cuMemFree_v2::HOOK, from(900));
        assert_eq!(inner.api(), ApiId(runtime::cudaFree::HOOK.id()));
        // Neither returns: the next call comes from the same place as the first one.
        let mut next = Call::enter(&memory::cuMemFree_v2::HOOK, from(1000));
        assert_eq!(next.api(), ApiId(memory::cuMemFree_v2::HOOK.id()));
        assert!(next.claim_release(64));
        // Unwinding their frames later has no effect.
        drop(inner);
        drop(left);
        thread::with(|thread| assert_eq!(thread.depth.get(), 1));
        drop(next);
        thread::with(|thread| assert_eq!(thread.depth.get(), 0));
    }

    #[test]
    fn a_call_ends_when_an_exception_leaves_it() {
        let left = std::panic::catch_unwind(|| {
            let _call = Call::enter(&runtime::cudaMalloc::HOOK, at(8));
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(left.is_err());
        let alone = Call::enter(&memory::cuMemAlloc_v2::HOOK, at(8));
        assert_eq!(alone.api(), ApiId(memory::cuMemAlloc_v2::HOOK.id()));
    }
}
