//! The state of each thread: a guard against reentry, and an unwinder that another thread uses after
//! this one has ended.

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;

use gpumem_unwind::{FRAMES, Unwinder};

use crate::counts::{COUNTS, add};
use crate::pages;
use crate::reference::Reference;

/// The tools for comparisons. All zeros are unused tools.
pub(crate) struct Tools {
    pub(crate) unwinder: Unwinder,
    /// For lookups of this crate, so that the other unwinder's state depends only on the program.
    pub(crate) second: Unwinder,
    pub(crate) reference: Reference,
    pub(crate) ours: [u64; FRAMES],
    /// First address of the thread's stack, and the first one behind it.
    pub(crate) stack: [u64; 2],
    next: Option<&'static mut Tools>,
}

struct Local {
    busy: Cell<bool>,
    countdown: Cell<u32>,
    random: Cell<u32>,
    tools: Cell<*mut Tools>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            busy: Cell::new(false),
            countdown: Cell::new(1),
            random: Cell::new(1),
            tools: Cell::new(core::ptr::null_mut()),
        }
    };
}

/// The tools of threads that have ended.
static FREE: Mutex<Option<&'static mut Tools>> = Mutex::new(None);
/// The key whose destructor runs at the end of a thread; `u32::MAX` before [`prepare`].
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Creates the key. Called once, before the first stack.
pub(crate) fn prepare() {
    let mut key = 0;
    // SAFETY: the variable is valid, and the destructor has the required type.
    if unsafe { libc::pthread_key_create(&mut key, Some(end)) } == 0 {
        KEY.store(key, Ordering::Release);
    }
}

/// Whether to compare at this call, one of `every` on average.
pub(crate) fn is_due(every: u32) -> bool {
    LOCAL.with(|local| {
        let left = local.countdown.get() - 1;
        if left > 0 || local.busy.get() {
            local.countdown.set(left.max(1));
            return false;
        }
        let random = local.random.get();
        let random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        local.random.set(random);
        local.countdown.set(1 + (random >> 8) % (2 * every - 1));
        true
    })
}

/// Runs `work` with the thread's tools, unless `work` is already running on this thread's stack.
pub(crate) fn with(work: impl FnOnce(&mut Tools)) {
    LOCAL.with(|local| {
        if local.busy.replace(true) {
            return;
        }
        if local.tools.get().is_null() {
            local.tools.set(adopt());
        }
        // SAFETY: the tools are this thread's, and the guard prevents a second reference.
        if let Some(tools) = unsafe { local.tools.get().as_mut() } {
            work(tools);
        }
        local.busy.set(false);
    });
}

fn adopt() -> *mut Tools {
    let mut free = FREE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let found = match free.take() {
        Some(tools) => {
            *free = tools.next.take();
            Some(tools)
        }
        // SAFETY: all zeros are unused tools.
        None => unsafe { pages::zeroed() },
    };
    drop(free);
    let Some(tools) = found else {
        return core::ptr::null_mut();
    };
    tools.unwinder.change_thread();
    tools.second.change_thread();
    tools.stack = stack();
    add(&COUNTS.threads, 1);
    let tools = &raw mut *tools;
    // SAFETY: the key exists, because nothing is compared before.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Acquire), tools.cast()) };
    tools
}

unsafe extern "C" fn end(tools: *mut c_void) {
    LOCAL.with(|local| {
        if local.busy.replace(true) {
            return;
        }
        local.tools.set(core::ptr::null_mut());
        // SAFETY: the tools from `adopt`, which the thread no longer uses.
        if let Some(tools) = unsafe { tools.cast::<Tools>().as_mut() } {
            let mut free = FREE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            tools.next = free.take();
            *free = Some(tools);
        }
        local.busy.set(false);
    });
}

/// First address of the calling thread's stack and the first one behind it.
fn stack() -> [u64; 2] {
    // SAFETY: the object is filled before it is read, and destroyed once.
    unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return [0, 0];
        }
        let (mut start, mut bytes) = (core::ptr::null_mut(), 0);
        libc::pthread_attr_getstack(&attributes, &mut start, &mut bytes);
        libc::pthread_attr_destroy(&mut attributes);
        [start as u64, start as u64 + bytes as u64]
    }
}
