//! System calls without the C library: programs replace its functions (clocks that are moved, sandboxes, checkers of
//! memory), and its waiting functions are cancellation points.

use core::arch::asm;

/// Makes a system call; a negative result is an error number. `errno` keeps its value, and the thread is not cancelled.
///
/// # Safety
/// As the system call.
#[inline]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the caller's promise; the kernel also changes these two registers.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    // SAFETY: the caller's promise; the kernel changes no other register.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => result,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            in("x4") e,
            in("x5") f,
            options(nostack)
        );
    }
    result
}
