//! What the hooks keep for each thread: how deep in CUDA it is and whether our own code runs.
//!
//! It is there before the first and after the last line of a thread's own code.

mod affinity;
mod start;

use core::cell::Cell;
use core::mem::offset_of;
use core::sync::atomic::AtomicU64;

use gpumem_capture::ThreadId;
use gpumem_stacks::thread_static;
use gpumem_unwind::Registers;

use crate::process;
use crate::stack_sample::StackSample;
pub(crate) use start::{Started, start};

thread_static! {
    /// This thread's state. All zeros are that of a thread outside every hook.
    fn place() -> Thread as "gpumem_thread";
}

/// Hooks whose calls are counted, at the most.
pub(crate) const HOOKS: usize = 512;
/// How often each hook was called by one thread at a time.
pub(crate) type CallCounts = [AtomicU64; HOOKS];

/// State of one thread; what every hook looks at comes first, in one cache line.
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// Return address, stack and frame pointer of the newest call of an exported hook: [`crate::caller`].
    pub(crate) noted: Cell<Registers>,
    /// The register of that name at that call, where the hook asks for it.
    pub(crate) rax: Cell<u64>,
    /// Where its calls are counted; null before the first, and where it has no row of its own.
    pub(crate) calls: Cell<*const CallCounts>,
    /// Where the C library keeps this thread's errno; null: not asked yet.
    errno: Cell<*mut libc::c_int>,
    id: Cell<u32>,
    /// How many workspaces for cuBLAS within one another it takes.
    pub(crate) workspaces: Cell<u32>,
    /// Hooked calls on the stack.
    pub(crate) depth: Cell<u32>,
    /// The outermost of them.
    pub(crate) api: Cell<u16>,
    /// Our own code runs: hooks that it (or a signal handler over it) meets record nothing.
    pub(crate) in_recorder: Cell<bool>,
    /// To where that one returns.
    pub(crate) caller: Cell<u64>,
    /// The stack pointer of whoever called it: what it calls lies below.
    pub(crate) outermost_sp: Cell<u64>,
    /// How often calls of this thread were given up, wrapping: see [`crate::call`].
    pub(crate) abandoned: Cell<u32>,
    /// Where the end of the outermost call is counted: see [`crate::call`].
    pub(crate) counted: Cell<u8>,
    /// Where the stack of the innermost of them is taken from; zeros for none.
    pub(crate) entry: Cell<Registers>,
    /// Allocations recorded on this thread, wrapping: an outer hook sees by it whether an inner one
    /// has recorded.
    pub(crate) allocated: Cell<u32>,
    /// Calls of the driver's hooks on this thread, wrapping: an outer hook sees by it whether its call
    /// has reached a hooked driver.
    pub(crate) driver_calls: Cell<u32>,
    /// The pointer whose release an outer hook has recorded; 0 for none.
    pub(crate) releasing: Cell<u64>,
    /// The context that it used last and that was known, and how many had ended by then.
    pub(crate) known_context: Cell<(u64, u64)>,
    /// What `allocated` was at the newest refusal, if that was told and the program has not asked what it means.
    pub(crate) told: Cell<Option<u32>>,
    /// Where stacks are sampled: which of its tensors carry them.
    pub(crate) stack_sample: StackSample,
    /// Within a timed call: see [`crate::call_timer`].
    pub(crate) is_timing: Cell<bool>,
    /// Whether a context was made or found or code loaded within it, or nothing was to be freed.
    pub(crate) has_set_up: Cell<bool>,
    /// Nanoseconds within it that were the recorder's own.
    pub(crate) own_ns: Cell<u64>,
}

const _: () = assert!(offset_of!(Thread, in_recorder) < 64);

impl Thread {
    /// The kernel's id of this thread.
    #[inline]
    pub(crate) fn id(&self) -> ThreadId {
        match self.id.get() {
            0 => self.ask_id(),
            known => ThreadId(known),
        }
    }

    #[cold]
    fn ask_id(&self) -> ThreadId {
        // SAFETY: gettid takes nothing and cannot fail.
        self.id
            .set(unsafe { libc::syscall(libc::SYS_gettid) } as u32);
        ThreadId(self.id.get())
    }

    /// This thread's errno.
    #[inline]
    fn errno(&self) -> &Cell<libc::c_int> {
        let mut place = self.errno.get();
        if place.is_null() {
            place = self.ask_errno();
        }
        // SAFETY: errno's address is valid for the thread's life, and errno is this thread's alone.
        unsafe { &*place.cast::<Cell<libc::c_int>>() }
    }

    #[cold]
    fn ask_errno(&self) -> *mut libc::c_int {
        // SAFETY: the function takes nothing and gives an address.
        let place = unsafe { libc::__errno_location() };
        self.errno.set(place);
        place
    }
}

/// Runs `f` on this thread's state.
#[inline(always)]
pub(crate) fn with<R>(f: impl FnOnce(&Thread) -> R) -> R {
    // SAFETY: it is this thread's alone, valid as zeros, and lives as long as the thread; it consists of
    // cells, so that shared references are enough.
    f(unsafe { &*place() })
}

/// Runs a hook's own code, unless this process has stepped aside.
pub(crate) fn in_hook<R>(f: impl FnOnce(&Thread) -> R) -> Option<R> {
    if process::is_aside() {
        return None;
    }
    guarded(f)
}

/// Runs our own code: not again from within itself, with errno kept and no panic
/// leaving it. `None` if it did not run to its end.
pub(crate) fn guarded<R>(f: impl FnOnce(&Thread) -> R) -> Option<R> {
    let quiet = ReentryGuard::begin()?;
    caught(|| f(quiet.thread))
}

/// Our own code runs on this thread as long as it lives: hooks that it meets record nothing. What may panic
/// or change errno is to be [`caught`].
pub(crate) struct ReentryGuard {
    pub(crate) thread: &'static Thread,
}

impl ReentryGuard {
    /// None, which is counted, if it runs already.
    #[inline(always)]
    pub(crate) fn begin() -> Option<Self> {
        // SAFETY: as in `with`; the reference does not leave this thread.
        let thread = unsafe { &*place() };
        if thread.in_recorder.replace(true) {
            crate::account::reentered();
            return None;
        }
        Some(Self { thread })
    }
}

impl Drop for ReentryGuard {
    #[inline(always)]
    fn drop(&mut self) {
        self.thread.in_recorder.set(false);
    }
}

/// Runs `f`, which does not panic, and keeps errno.
pub(crate) fn with_errno_kept<R>(f: impl FnOnce() -> R) -> R {
    let errno = with(|thread| thread.errno().get());
    let result = f();
    with(|thread| thread.errno().set(errno));
    result
}

/// Runs `f` and keeps errno; `None`, which is counted, if it panics.
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Option<R> {
    let run = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    let result = with_errno_kept(run);
    if result.is_err() {
        crate::account::panicked();
    }
    result.ok()
}

/// Runs `f` where hooks record nothing: on a thread of the recorder's.
fn never_recorded(f: impl FnOnce()) {
    with(|thread| thread.in_recorder.set(true));
    f();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_code_does_not_meet_itself() {
        assert_eq!(guarded(|_| guarded(|_| 1)), Some(None));
        assert_eq!(guarded(|_| 2), Some(2));
    }

    #[test]
    fn a_panic_stays_inside() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        assert_eq!(guarded(|_| -> u8 { panic!("planted") }), None);
        std::panic::set_hook(hook);
        assert_eq!(guarded(|_| 3), Some(3));
    }
}
