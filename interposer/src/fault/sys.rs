//! System calls of the signal handler: no errno, no allocation, no use of the C library.

use core::ffi::c_int;

/// A set of signals in the kernel's format.
pub(super) type Signals = u64;

/// All blockable signals.
pub(super) const ALL_SIGNALS: Signals = !0;

/// The set of one signal.
pub(super) const fn only(signal: c_int) -> Signals {
    1 << (signal - 1)
}

/// # Safety
/// As the system call's.
unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result: isize;
    // SAFETY: the caller answers for the call; the kernel changes rax, rcx and r11 alone.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// The process id, queried each time: a child that shares this memory (vfork) has another one.
pub(super) fn process() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { call(libc::SYS_getpid, [0; 6]) as i32 }
}

/// The calling thread's id.
pub(super) fn thread() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { call(libc::SYS_gettid, [0; 6]) as i32 }
}

/// Yields the processor.
pub(super) fn yield_now() {
    // SAFETY: takes nothing.
    unsafe { call(libc::SYS_sched_yield, [0; 6]) };
}

/// Changes the calling thread's mask (`SIG_BLOCK`, `SIG_UNBLOCK`, `SIG_SETMASK`); returns the previous
/// mask.
pub(super) fn mask(how: c_int, signals: Signals) -> Signals {
    let mut before: Signals = 0;
    // SAFETY: both sets are valid for the call, of the size that is passed.
    unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            [
                how as usize,
                (&raw const signals) as usize,
                (&raw mut before) as usize,
                size_of::<Signals>(),
                0,
                0,
            ],
        )
    };
    before
}

/// Whether a signal that the calling thread blocks is pending for it or for the process.
pub(super) fn is_pending(signal: c_int) -> bool {
    let mut pending: Signals = 0;
    // SAFETY: the set is valid for the call, of the size that is passed.
    unsafe {
        call(
            libc::SYS_rt_sigpending,
            [
                (&raw mut pending) as usize,
                size_of::<Signals>(),
                0,
                0,
                0,
                0,
            ],
        )
    };
    pending & only(signal) != 0
}

/// Sleeps for a millisecond, or less if a signal arrives.
pub(super) fn sleep_a_millisecond() {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    // SAFETY: the time is valid for the call.
    unsafe {
        call(
            libc::SYS_nanosleep,
            [(&raw const time) as usize, 0, 0, 0, 0, 0],
        )
    };
}

/// Replaces a mapped range by new zeroed memory. False if the kernel has none.
///
/// # Safety
/// The range is whole pages of a mapping whose content may be lost.
pub(super) unsafe fn replace(base: usize, len: usize) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // Shared memory counts against other limits than private memory.
    [libc::MAP_PRIVATE, libc::MAP_SHARED]
        .into_iter()
        .any(|kind| {
            let flags = kind | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            // SAFETY: the caller's promise.
            let mapped = unsafe {
                call(
                    libc::SYS_mmap,
                    [base, len, protection as usize, flags as usize, !0, 0],
                )
            };
            mapped == base as isize
        })
}

/// Sends SIGBUS with that information to the calling thread.
///
/// # Safety
/// `info` is null or valid.
pub(super) unsafe fn raise_again(info: *const libc::siginfo_t) {
    let (process, thread) = (process() as usize, thread() as usize);
    let signal = libc::SIGBUS as usize;
    // SAFETY: the caller's promise; the kernel copies the structure.
    let sent = unsafe {
        call(
            libc::SYS_rt_tgsigqueueinfo,
            [process, thread, signal, info as usize, 0, 0],
        )
    };
    if sent != 0 {
        // SAFETY: takes numbers alone.
        unsafe { call(libc::SYS_tgkill, [process, thread, signal, 0, 0, 0]) };
    }
}

/// Sends SIGBUS to the process, for any of its threads.
pub(super) fn raise_for_any() {
    // SAFETY: takes numbers alone.
    unsafe {
        call(
            libc::SYS_kill,
            [process() as usize, libc::SIGBUS as usize, 0, 0, 0, 0],
        )
    };
}
