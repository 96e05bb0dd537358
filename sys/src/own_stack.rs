//! Stacks of the recorder's own, for code that needs more room than a program's stack may have left: threads of 16 KiB
//! and fibers use CUDA, too.

use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::{pages, raw};

/// Bytes of a stack: address space, of which little is touched. A signal handler of the program may run on it, too.
const BYTES: usize = 256 << 10;
/// The part at its lower end that cannot be accessed.
const GUARD: usize = 4096;

/// A stack, mapped when it is used for the first time.
struct Stack {
    base: AtomicUsize,
    is_taken: AtomicBool,
}

/// As many threads can be on one at a time; more stay on their own.
static STACKS: [Stack; 64] = [const {
    Stack {
        base: AtomicUsize::new(0),
        is_taken: AtomicBool::new(false),
    }
}; 64];

/// A stack that nobody else uses until this is dropped.
struct Taken(&'static Stack);

impl Taken {
    fn new() -> Option<Self> {
        let free = STACKS.iter().find(|stack| {
            let is_free = !stack.is_taken.load(Ordering::Relaxed);
            is_free && !stack.is_taken.swap(true, Ordering::Acquire)
        })?;
        let taken = Self(free);
        if free.base.load(Ordering::Relaxed) == 0 {
            let base = pages::map(BYTES)?.as_ptr() as usize;
            // SAFETY: the lowest page of new memory.
            unsafe { raw::call(libc::SYS_mprotect, [base, GUARD, 0, 0, 0, 0]) };
            free.base.store(base, Ordering::Relaxed);
        }
        Some(taken)
    }

    fn top(&self) -> usize {
        self.0.base.load(Ordering::Relaxed) + BYTES
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}

/// Whether this function's frame is on one of these stacks.
#[inline(never)]
fn is_on_one() -> bool {
    let here = 0u8;
    let here = &raw const here as usize;
    STACKS
        .iter()
        .any(|stack| here.wrapping_sub(stack.base.load(Ordering::Relaxed)) < BYTES)
}

/// Runs `f` on a stack with much room, or where it is if it is on one already or all are taken.
#[inline(never)]
pub fn run<R>(f: impl FnOnce() -> R) -> R {
    if is_on_one() {
        return f();
    }
    match Taken::new() {
        Some(stack) => on(&stack, f),
        None => f(),
    }
}

/// A function before its call, and its result after it.
union Call<F, R> {
    function: ManuallyDrop<F>,
    result: ManuallyDrop<R>,
}

fn on<F: FnOnce() -> R, R>(stack: &Taken, f: F) -> R {
    unsafe extern "C-unwind" fn call<F: FnOnce() -> R, R>(call: *mut c_void) {
        let call = call.cast::<Call<F, R>>();
        // SAFETY: the caller of `switch` passes a call with its function, which is taken once.
        unsafe {
            let function = ManuallyDrop::take(&mut (*call).function);
            (*call).result = ManuallyDrop::new(function());
        }
    }
    let mut data = Call::<F, R> {
        function: ManuallyDrop::new(f),
    };
    // SAFETY: the stack is this call's alone; `call` gets the data that it expects. If it returns, it has stored the
    // result; if it unwinds, the function was taken.
    unsafe {
        switch(stack.top(), call::<F, R>, (&raw mut data).cast());
        ManuallyDrop::into_inner(data.result)
    }
}

/// Calls `function` with `data` on the stack that ends at `top`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn switch(
    top: usize,
    function: unsafe extern "C-unwind" fn(*mut c_void),
    data: *mut c_void,
) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Calls `function` with `data`, on this stack.
#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C-unwind" fn switch(
    _: usize,
    function: unsafe extern "C-unwind" fn(*mut c_void),
    data: *mut c_void,
) {
    // SAFETY: the caller's promise.
    unsafe { function(data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses much of the stack it runs on.
    #[inline(never)]
    fn deep(bytes: &[u8; 100_000]) -> u64 {
        let copy = core::hint::black_box(*bytes);
        copy.iter().map(|byte| u64::from(*byte)).sum()
    }

    #[test]
    fn a_thread_with_a_small_stack_has_room() {
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let thread = small.spawn(|| {
            static ONES: [u8; 100_000] = [1; 100_000];
            assert!(!is_on_one());
            let inner = run(|| (is_on_one(), run(is_on_one), deep(&ONES)));
            assert!(!is_on_one());
            inner
        });
        let found = thread.expect("a thread").join().expect("it returns");
        assert_eq!(
            found,
            (
                cfg!(target_arch = "x86_64"),
                cfg!(target_arch = "x86_64"),
                100_000
            )
        );
    }

    #[test]
    fn what_is_returned_and_dropped_is_right_and_a_panic_passes() {
        let text = String::from("a text of the caller's");
        assert_eq!(run(move || text + "!"), "a text of the caller's!");
        let caught = std::panic::catch_unwind(|| run(|| std::panic::resume_unwind(Box::new(7))));
        assert_eq!(caught.unwrap_err().downcast_ref::<i32>(), Some(&7));
        // The stack is free again.
        assert_eq!(run(|| 3), 3);
    }
}
