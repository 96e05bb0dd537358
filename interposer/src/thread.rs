//! The state of the hooks for each thread: the nesting of CUDA calls and whether the recorder's code runs.
//!
//! It exists before the first and after the last line of a thread's own code.

mod affinity;
pub(crate) mod last;
mod ours;
mod start;

use core::cell::Cell;
use core::ffi::c_int;
use core::mem::offset_of;
use core::sync::atomic::AtomicU64;

use gpumem_capture::ThreadId;
use gpumem_stacks::thread_static;
use gpumem_sys::{own_stack, threads};
use gpumem_unwind::Registers;

use crate::process;
use crate::stack_sample::StackSample;
pub(crate) use start::{Started, start};

thread_static! {
    /// This thread's state. All zeros for a thread outside every hook.
    fn place() -> Thread as "gpumem_thread";
}

/// The maximum number of hooks whose calls are counted.
pub(crate) const HOOKS: usize = 512;
/// The number of calls of each hook, counted by one thread at a time.
pub(crate) type CallCounts = [AtomicU64; HOOKS];

/// State of one thread; fields that every hook reads come first, in one cache line.
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// Return address, stack and frame pointer of the newest call of an exported hook: [`crate::caller`].
    pub(crate) noted: Cell<Registers>,
    /// The value of that register at that call, if the hook needs it.
    pub(crate) rax: Cell<u64>,
    /// The counters of its calls; null before the first call, and without a separate row.
    pub(crate) calls: Cell<*const CallCounts>,
    /// The address of this thread's errno in the C library; null if not queried yet.
    errno: Cell<*mut libc::c_int>,
    id: Cell<u32>,
    /// The nesting depth of workspace allocations for cuBLAS.
    pub(crate) workspaces: Cell<u32>,
    /// Hooked calls on the stack.
    pub(crate) depth: Cell<u32>,
    /// The outermost of them.
    pub(crate) api: Cell<u16>,
    /// The recorder's code runs: hooks that it (or a signal handler over it) calls record nothing.
    pub(crate) in_recorder: Cell<bool>,
    /// The return address of the outermost call.
    pub(crate) caller: Cell<u64>,
    /// The stack pointer of its caller: nested calls are below it.
    pub(crate) outermost_sp: Cell<u64>,
    /// The number of abandoned calls of this thread, wrapping: see [`crate::call`].
    pub(crate) abandoned: Cell<u32>,
    /// The counter for the end of the outermost call: see [`crate::call`].
    pub(crate) counted: Cell<u8>,
    /// The registers from which the stack of the innermost call is captured; zeros for none.
    pub(crate) entry: Cell<Registers>,
    /// Allocations recorded on this thread, wrapping: an outer hook detects by it whether an inner one has
    /// recorded.
    pub(crate) allocated: Cell<u32>,
    /// Calls of the driver's hooks on this thread, wrapping: an outer hook detects by it whether its call has
    /// reached a hooked driver.
    pub(crate) driver_calls: Cell<u32>,
    /// The pointer whose release an outer hook has recorded; 0 for none.
    pub(crate) releasing: Cell<u64>,
    /// The last known context that it used, and the number of ended contexts at that time.
    pub(crate) known_context: Cell<(u64, u64)>,
    /// The value of `allocated` at the newest reported refusal, until the program queries the text of the error.
    pub(crate) told: Cell<Option<u32>>,
    /// The newest failure of PyTorch's allocator, until its observers are called; 0 for none.
    pub(crate) failure: Cell<u64>,
    /// Where the part of its stack begins from which much room is left below, and the bytes of that part; zeros before
    /// they are known.
    roomy: Cell<(u64, u64)>,
    /// Another tool's `dlsym` is being called: what it looks up is not passed to it again.
    pub(crate) asks_other: Cell<bool>,
    /// Whether its newest CUDA call, as far as calls are hooked, ran out of memory.
    pub(crate) ran_out: Cell<bool>,
    /// The selection of its tensors with stacks, if stacks are sampled.
    pub(crate) stack_sample: StackSample,
    /// Within a timed call: see [`crate::call_timer`].
    pub(crate) is_timing: Cell<bool>,
    /// Whether a context was created or found or code loaded within it, or there was nothing to free.
    pub(crate) has_set_up: Cell<bool>,
    /// Nanoseconds of the recorder's own work within it.
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

    /// Whether the stack that the thread is on has much room left.
    #[inline(always)]
    fn has_room(&self) -> bool {
        let here = 0u8;
        let here = &raw const here as u64;
        let (from, bytes) = self.roomy.get();
        here.wrapping_sub(from) < bytes || self.find_room(here)
    }

    /// Finds the part of this thread's own stack from which much room is left below.
    #[cold]
    #[inline(never)]
    fn find_room(&self, here: u64) -> bool {
        if self.roomy.get().0 != 0 {
            return false; // a fiber, or at the stack's end
        }
        let (from, to) = match threads::own() == std::process::id() {
            true => first_stack(),
            false => own_stack::run(gpumem_unwind::stack).unwrap_or_default(),
        };
        let from = from.saturating_add(ROOM);
        let bytes = to.saturating_sub(from);
        self.roomy.set((from, bytes));
        here.wrapping_sub(from) < bytes
    }

    #[cold]
    fn ask_id(&self) -> ThreadId {
        self.id.set(threads::own());
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

/// The stack of the first thread, as far as its limit allows it to grow. (The C library would read /proc.)
fn first_stack() -> (u64, u64) {
    unsafe extern "C" {
        /// An address above all frames of the first thread.
        static __libc_stack_end: *const u8;
    }
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is valid for writing.
    let told = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    // SAFETY: the loader has set it before any code of the process runs.
    let end = unsafe { __libc_stack_end } as u64;
    // The kernel leaves room for at most this much.
    let most = if told { limit.rlim_cur.min(1 << 30) } else { 0 };
    (end.saturating_sub(most), end)
}

/// Keeps a forked child from taking its parent's thread for its own. Called once, when the library is loaded.
pub(crate) fn watch_forks() {
    unsafe extern "C" fn in_child() {
        with(|thread| thread.id.set(0));
    }
    // SAFETY: the function lives as long as the process.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Runs `f` with this thread's state.
#[inline(always)]
pub(crate) fn with<R>(f: impl FnOnce(&Thread) -> R) -> R {
    // SAFETY: it is this thread's alone, valid as zeros, and lives as long as the thread; it consists of
    // cells, so that shared references are enough.
    f(unsafe { &*place() })
}

/// Runs a hook's own code, unless recording is off in this process: on a stack of the recorder's, if little room is left
/// on the program's.
pub(crate) fn in_hook<R>(f: impl FnOnce(&Thread) -> R) -> Option<R> {
    if process::is_aside() {
        return None;
    }
    match with(Thread::has_room) {
        true => guarded(f),
        false => own_stack::run(|| guarded(f)),
    }
}

/// Bytes of a program's stack that must be left for a hook's code.
const ROOM: u64 = 256 << 10;

/// Runs the recorder's code: not nested in itself, with errno preserved, and catching panics. `None` if it did
/// not complete.
pub(crate) fn guarded<R>(f: impl FnOnce(&Thread) -> R) -> Option<R> {
    let quiet = ReentryGuard::begin()?;
    caught(|| f(quiet.thread))
}

/// Runs the recorder's code on the program's stack, if much room is left there.
pub(crate) fn guarded_with_room<R>(f: impl FnOnce(&Thread) -> R) -> Option<R> {
    with(Thread::has_room).then(|| guarded(f)).flatten()
}

/// The recorder's code runs on this thread until this is dropped: nested hooks record nothing. Code that may
/// panic or change errno must be [`caught`].
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

/// This thread is not cancelled until this is dropped: a cancellation unwinds the stack and must not meet our frames.
struct Uncancelled(c_int);

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

impl Uncancelled {
    const DISABLE: c_int = 1;

    fn begin() -> Self {
        let mut before = Self::DISABLE;
        // SAFETY: the integer is valid for writing; only this thread's state changes.
        unsafe { pthread_setcancelstate(Self::DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        if self.0 != Self::DISABLE {
            // SAFETY: a state that the C library returned.
            unsafe { pthread_setcancelstate(self.0, core::ptr::null_mut()) };
        }
    }
}

/// Runs `f`, which does not panic, without cancellation, and preserves errno.
pub(crate) fn with_errno_kept<R>(f: impl FnOnce() -> R) -> R {
    let _uncancelled = Uncancelled::begin();
    let errno = with(|thread| thread.errno().get());
    let result = f();
    with(|thread| thread.errno().set(errno));
    result
}

/// Runs `f` and preserves errno; `None`, which is counted, if it panics.
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Option<R> {
    let run = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    let result = with_errno_kept(run);
    if result.is_err() {
        crate::account::panicked();
    }
    result.ok()
}

/// Runs `f` without recording in hooks: on one of the recorder's threads.
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
