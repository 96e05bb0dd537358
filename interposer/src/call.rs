//! One hooked call, from its entry to its return or to the exception that leaves it.
//!
//! A program may also leave a call by longjmp, past all of our frames. Then nothing of ours runs, and the
//! thread would seem to be within that call for ever. The next call on the thread finds that it does not
//! lie below the outermost one on the stack, as all that is called from there must, and gives it up.

use core::sync::atomic::Ordering;

use gpumem_capture::ApiId;
use gpumem_tracker::Interest;
use gpumem_unwind::Registers;

use crate::call_counts::CALLS;
use crate::hook::Hook;
use crate::session;
use crate::thread::{self, Thread};

/// How many calls there were by some moment. Two that are equal have none between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallsSoFar {
    entered: u64,
    waits: u64,
}

/// Whether no call is in progress on any thread that may move memory.
pub(crate) fn is_quiet() -> bool {
    let left = CALLS.left.load(Ordering::Acquire);
    CALLS.entered.load(Ordering::Acquire) == left
}

/// This moment, if no call is in progress but this thread's own that may move memory, nor one that synchronises
/// where that may.
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

/// Whether there are pools or graphs, which give back by themselves what they do not use.
fn has_questions() -> bool {
    let session = session::session();
    session.is_some_and(|session| session.interest().has(Interest::QUESTIONS))
}

/// Where the beginning and the end of a call are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Counted {
    Nowhere,
    /// It may move memory.
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

    /// As the outermost call on the thread is counted.
    fn from_thread(thread: &Thread) -> Self {
        match thread.counted.get() {
            n if n == Self::Moving as u8 => Self::Moving,
            n if n == Self::Waiting as u8 => Self::Waiting,
            _ => Self::Nowhere,
        }
    }

    /// Counts a beginning.
    #[inline]
    fn begin(self) {
        match self {
            Self::Nowhere => {}
            Self::Moving => _ = CALLS.entered.fetch_add(1, Ordering::SeqCst),
            Self::Waiting => _ = CALLS.waits.fetch_add(1, Ordering::SeqCst),
        }
    }

    /// Counts an end.
    fn end(self) {
        match self {
            Self::Nowhere => {}
            Self::Moving => _ = CALLS.left.fetch_add(1, Ordering::SeqCst),
            Self::Waiting => _ = CALLS.waited.fetch_add(1, Ordering::SeqCst),
        }
    }
}

/// Whether this thread is on its usual stack, where a call made from within another has its frames below.
/// The stack that a handler of signals has of its own may lie anywhere.
#[cold]
fn is_on_the_usual_stack() -> bool {
    // SAFETY: an all-zero structure is a valid value of it.
    let mut stack: libc::stack_t = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is valid for writing, and nothing is set.
    let asked = unsafe { libc::sigaltstack(core::ptr::null(), &raw mut stack) };
    asked == 0 && stack.ss_flags & libc::SS_ONSTACK == 0
}

/// Leaves the outermost call on this thread in its stead.
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
    /// Where the stack of the call around this one was taken from.
    around: Registers,
    allocated_before: u32,
    driver_calls_before: u32,
    outermost: bool,
    counted: Counted,
    /// The thread's, at the beginning: another one later means that this call was given up.
    abandoned: u32,
    /// The release that an outer call had claimed before this one claimed its own.
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
                // Where it is not known nothing lies above it.
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

    /// A return address; the higher it is the deeper is the call.
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

    /// As `at`, from a frame at that place of the stack.
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
        // Neither returns: the next call comes from where the first one came from.
        let mut next = Call::enter(&memory::cuMemFree_v2::HOOK, from(1000));
        assert_eq!(next.api(), ApiId(memory::cuMemFree_v2::HOOK.id()));
        assert!(next.claim_release(64));
        // Should their frames be unwound after all, that changes nothing.
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
