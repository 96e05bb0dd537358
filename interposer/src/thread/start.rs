//! The recorder's own threads.
//!
//! A thread inherits its creator's scheduling policy, processors and signal mask, and the creator is a thread of the
//! program: under SCHED_FIFO and pinned to one processor, the recorder's threads would compete with it. So they are
//! created with the ordinary policy and with the initial processors of the process. Both are set before the thread
//! runs, because it might not get a processor to set them itself.

use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use gpumem_sys::{c_library, wait};

use super::{affinity, never_recorded, ours};
use crate::fault;

/// Bytes of a thread's stack, without what the program's thread-local variables take of it.
const STACK: usize = 1 << 20;

/// A started thread of the recorder.
pub(crate) struct Started {
    /// 0 while its function runs.
    ended: Arc<AtomicU32>,
}

impl Started {
    /// Waits until the thread's function has returned, at most `limit`. Returns whether it has.
    pub(crate) fn join_within(&self, limit: Duration) -> bool {
        let mut waited = Duration::ZERO;
        while self.ended.load(Ordering::Acquire) == 0 {
            let Some(left) = limit.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return false;
            };
            waited += wait::sleep(&self.ended, 0, left);
        }
        true
    }
}

/// Records that the thread's function has returned or panicked.
struct Ends(Arc<AtomicU32>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Release);
        wait::wake(&self.0);
    }
}

/// The task of a new thread.
struct Task {
    name: &'static CStr,
    run: Box<dyn FnOnce() + Send>,
    ends: Ends,
}

/// Starts a recorder thread. It takes none of the program's signals, and its CUDA calls are not recorded. `name` has
/// at most 15 characters.
pub(crate) fn start(
    name: &'static CStr,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<Started> {
    let ended = Arc::new(AtomicU32::new(0));
    let task = Box::into_raw(Box::new(Task {
        name,
        run: Box::new(run),
        ends: Ends(Arc::clone(&ended)),
    }));
    let _masked = Masked::new();
    let mut result = libc::EAGAIN;
    // A cpuset that has shrunk since rejects the processors, and a filter of system calls may reject either.
    for (policy, processors) in [(true, true), (true, false), (false, true), (false, false)] {
        // SAFETY: `task` is leaked above and owned by the thread if one is created.
        result = unsafe { create(task, policy, processors, stack_size()) };
        if matches!(result, 0 | libc::EAGAIN) {
            break;
        }
    }
    if result == libc::EINVAL {
        // SAFETY: as above.
        result = unsafe { create(task, false, false, 0) };
    }
    if result != 0 {
        // SAFETY: leaked above; no thread was created that owns it.
        drop(unsafe { Box::from_raw(task) });
        return Err(io::Error::from_raw_os_error(result));
    }
    Ok(Started { ended })
}

/// The size of a stack: the C library puts the static thread-local variables of all libraries there, which may be
/// larger than any stack that we would choose.
fn stack_size() -> usize {
    type MinStack = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    let address = c_library::find(c"__pthread_get_minstack");
    if address == 0 {
        return STACK;
    }
    // SAFETY: the address is that of the C library's function, whose type this is. It does not read its argument.
    let least = unsafe { core::mem::transmute::<usize, MinStack>(address)(core::ptr::null()) };
    STACK.saturating_add(least).next_multiple_of(4096)
}

/// Creates a thread that runs `task`, with the ordinary policy if `policy` and the process's processors if
/// `processors`, otherwise with its creator's, and a stack of that size, or the default one for 0. Returns 0 or an
/// error number.
///
/// # Safety
/// `task` is a leaked box that the new thread may take over.
unsafe fn create(task: *mut Task, policy: bool, processors: bool, stack: usize) -> c_int {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: a zeroed structure is a valid value of it: of the ordinary policy, 0 is the only priority.
    let parameters: libc::sched_param = unsafe { core::mem::zeroed() };
    let mut thread = MaybeUninit::uninit();
    // SAFETY: `attributes` is initialised first and destroyed last, and used by this thread alone; the mask is valid
    // for its length; the rest is the caller's promise.
    unsafe {
        let failed = libc::pthread_attr_init(attributes);
        if failed != 0 {
            return failed;
        }
        libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        if stack != 0 {
            libc::pthread_attr_setstacksize(attributes, stack);
        }
        if policy {
            libc::pthread_attr_setinheritsched(attributes, libc::PTHREAD_EXPLICIT_SCHED);
            libc::pthread_attr_setschedpolicy(attributes, libc::SCHED_OTHER);
            libc::pthread_attr_setschedparam(attributes, &raw const parameters);
        }
        if let (true, Some(mask)) = (processors, affinity::at_load()) {
            libc::pthread_attr_setaffinity_np(
                attributes,
                size_of_val(mask),
                mask.as_ptr().cast::<libc::cpu_set_t>(),
            );
        }
        let result = libc::pthread_create(thread.as_mut_ptr(), attributes, main, task.cast());
        libc::pthread_attr_destroy(attributes);
        result
    }
}

/// The first function of each thread.
extern "C" fn main(task: *mut c_void) -> *mut c_void {
    // SAFETY: [`start`] leaked it for this thread.
    let task = unsafe { Box::from_raw(task.cast::<Task>()) };
    let Task { name, run, ends } = *task;
    // SAFETY: the name is NUL-terminated, and the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    let ours = ours::Ours::new();
    let own = fault::own();
    let whole = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| never_recorded(run)));
    if whole.is_err() {
        crate::account::panicked();
    }
    drop(own);
    drop(ours);
    drop(ends);
    core::ptr::null_mut()
}

/// All signals are blocked in this thread until this is dropped. A thread that is created meanwhile inherits that. Also
/// those that a thread's own instructions cause, because they can be sent to a process that waits for them.
struct Masked {
    before: libc::sigset_t,
}

impl Masked {
    fn new() -> Self {
        // SAFETY: an all-zero signal set is valid memory for the calls below to fill; only the calling thread's mask
        // changes.
        unsafe {
            let mut mask: libc::sigset_t = core::mem::zeroed();
            let mut before: libc::sigset_t = core::mem::zeroed();
            libc::sigfillset(&raw mut mask);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, &raw mut before);
            Self { before }
        }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        // SAFETY: `before` is this thread's mask of a moment ago.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.before,
                core::ptr::null_mut(),
            )
        };
    }
}

/// Makes the calling thread accept all signals, before it runs the program's code.
pub(super) fn accept_all() {
    // SAFETY: an empty set is all zeros; only this thread's mask changes.
    unsafe {
        let none: libc::sigset_t = core::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, core::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Only ends a test that hangs.
    const AT_MOST: Duration = Duration::from_secs(300);

    #[test]
    fn a_thread_is_joined_once_its_function_has_returned() {
        let (end, until) = mpsc::channel::<()>();
        let started = start(c"gpumem-test", move || {
            let _ = until.recv();
        })
        .expect("a thread");
        assert!(!started.join_within(Duration::from_millis(20)));
        end.send(()).expect("the thread waits");
        assert!(started.join_within(AT_MOST));
    }

    #[test]
    fn a_thread_that_panics_has_ended() {
        let started = start(c"gpumem-test", || std::panic::resume_unwind(Box::new(())));
        assert!(started.expect("a thread").join_within(AT_MOST));
    }

    #[test]
    fn a_thread_of_a_pinned_one_is_not_pinned() {
        let processors = || {
            std::thread::available_parallelism()
                .expect("the kernel tells")
                .get()
        };
        let all = processors();
        std::thread::spawn(move || {
            // SAFETY: a zeroed set is valid; only the calling thread's processors change.
            unsafe {
                let mut first: libc::cpu_set_t = core::mem::zeroed();
                let mut mine: libc::cpu_set_t = core::mem::zeroed();
                let size = size_of::<libc::cpu_set_t>();
                libc::sched_getaffinity(0, size, &raw mut mine);
                let one = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &mine));
                libc::CPU_SET(one.expect("a processor"), &mut first);
                assert_eq!(libc::sched_setaffinity(0, size, &raw const first), 0);
            }
            let (tell, told) = mpsc::channel();
            start(c"gpumem-test", move || {
                let _ = tell.send(processors());
            })
            .expect("a thread");
            assert_eq!(told.recv().expect("the thread tells"), all);
        })
        .join()
        .expect("the pinned thread");
    }
}
