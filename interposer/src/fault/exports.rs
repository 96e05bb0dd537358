//! The C library's functions that set a signal's disposition. For SIGBUS, once our handler is installed, they act on
//! the host's disposition; all other calls go to the real function.

use core::ffi::c_int;

use super::host;
use super::next::{Next, OfSignal};

type Sigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

macro_rules! sigactions {
    ($($name:ident: $next:ident),* $(,)?) => {$(
        /// `sigaction`, for every program under LD_PRELOAD.
        ///
        /// # Safety
        /// As `sigaction(2)`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            signal: c_int,
            new: *const libc::sigaction,
            old: *mut libc::sigaction,
        ) -> c_int {
            if signal == libc::SIGBUS
                // SAFETY: the caller's own arguments.
                && let Some(result) = unsafe { host::sigaction(new, old) }
            {
                return result;
            }
            // SAFETY: the address is that of the next function of this name, whose type this is.
            let real = unsafe { core::mem::transmute::<usize, Sigaction>(Next::$next.address()) };
            // SAFETY: the caller's own arguments.
            unsafe { real(signal, new, old) }
        }
    )*};
}

sigactions! {
    sigaction: Sigaction,
    __sigaction: SigactionInternal,
}

macro_rules! signals {
    ($($name:ident: $next:ident, $meaning:path);* $(;)?) => {$(
        /// The function of that name, for every program under LD_PRELOAD.
        ///
        /// # Safety
        /// As `signal(2)`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, handler: usize) -> usize {
            if signal == libc::SIGBUS && let Some(before) = $meaning(handler) {
                return before;
            }
            // SAFETY: the caller's own arguments.
            unsafe { go_on(Next::$next, signal, handler) }
        }
    )*};
}

signals! {
    signal: Signal, host::signal;
    bsd_signal: BsdSignal, host::signal;
    ssignal: Ssignal, host::signal;
    sysv_signal: SysvSignal, host::sysv_signal;
    __sysv_signal: SysvSignalInternal, host::sysv_signal;
    sigset: Sigset, host::sigset;
}

/// `sigignore`, for every program under LD_PRELOAD.
///
/// # Safety
/// As `sigignore(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigignore(signal: c_int) -> c_int {
    if signal == libc::SIGBUS
        && let Some(result) = host::sigignore()
    {
        return result;
    }
    // SAFETY: the caller's own argument; the function takes no second one.
    unsafe { go_on(Next::Sigignore, signal, 0) as c_int }
}

/// `siginterrupt`, for every program under LD_PRELOAD.
///
/// # Safety
/// As `siginterrupt(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    if signal == libc::SIGBUS
        && let Some(result) = host::siginterrupt(interrupts != 0)
    {
        return result;
    }
    // SAFETY: the caller's own arguments; a number is passed as an address is.
    unsafe { go_on(Next::Siginterrupt, signal, interrupts as usize) as c_int }
}

/// # Safety
/// As the next function's.
#[inline(always)]
unsafe fn go_on(next: Next, signal: c_int, second: usize) -> usize {
    // SAFETY: the address is that of a function of two arguments of these sizes, or of the first of them.
    let real = unsafe { core::mem::transmute::<usize, OfSignal>(next.address()) };
    // SAFETY: the caller's promise.
    unsafe { real(signal, second) }
}
