//! Makes calls that may throw a C++ exception, which Rust code cannot catch.
//!
//! The call is made by a few instructions with their own personality function. When the unwinder queries it, it reports
//! that the frame handles the exception. Execution then continues at `landing`, where the exception ends.

use core::ffi::{c_int, c_void};

use crate::real;

core::arch::global_asm!(
    ".text",
    ".hidden gpumem_whatif_attempt",
    ".globl gpumem_whatif_attempt",
    ".type gpumem_whatif_attempt, @function",
    "gpumem_whatif_attempt:",
    ".cfi_startproc",
    ".cfi_personality 0x1b, {personality}",
    // rdi: the function; rsi: its arguments; rdx: where to store that it threw.
    "push rbx",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset rbx, 0",
    "mov rbx, rdx",
    "mov rax, rdi",
    "mov r10, rsi",
    "mov rdi, [r10]",
    "mov rsi, [r10 + 8]",
    "mov rdx, [r10 + 16]",
    "mov rcx, [r10 + 24]",
    "mov r8, [r10 + 32]",
    "call rax",
    "2:",
    "pop rbx",
    ".cfi_remember_state",
    ".cfi_adjust_cfa_offset -8",
    ".cfi_restore rbx",
    "ret",
    ".cfi_restore_state",
    ".hidden gpumem_whatif_landing",
    ".globl gpumem_whatif_landing",
    "gpumem_whatif_landing:",
    "mov qword ptr [rbx], 1",
    "mov rdi, rax",
    "call {caught}",
    "xor eax, eax",
    "jmp 2b",
    ".cfi_endproc",
    ".size gpumem_whatif_attempt, . - gpumem_whatif_attempt",
    personality = sym personality,
    caught = sym caught,
);

unsafe extern "C-unwind" {
    fn gpumem_whatif_attempt(function: usize, arguments: &[u64; 5], threw: &mut u64) -> u64;
}

unsafe extern "C" {
    static gpumem_whatif_landing: u8;
    fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
    fn _Unwind_SetIP(context: *mut c_void, to: usize);
}

/// Calls a function that takes up to five words and returns one; `None` if it threw.
///
/// # Safety
/// As for the function itself.
pub(crate) unsafe fn attempt<const N: usize>(function: usize, arguments: [u64; N]) -> Option<u64> {
    const { assert!(N <= 5) };
    let (mut words, mut threw) = ([0; 5], 0);
    words
        .iter_mut()
        .zip(arguments)
        .for_each(|(word, argument)| *word = argument);
    // SAFETY: guaranteed by the caller; the words and `threw` outlive the call.
    let result = unsafe { gpumem_whatif_attempt(function, &words, &mut threw) };
    (threw == 0).then_some(result)
}

/// The personality function for the one call of `attempt`: the frame handles every exception.
extern "C" fn personality(
    _: c_int,
    actions: c_int,
    _: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    const SEARCH: c_int = 1;
    const HANDLER_FOUND: c_int = 6;
    const INSTALL_CONTEXT: c_int = 7;
    const RAX: c_int = 0;
    if actions & SEARCH != 0 {
        return HANDLER_FOUND;
    }
    // SAFETY: the unwinder's own context; the address is that of an instruction of the frame.
    unsafe {
        _Unwind_SetGR(context, RAX, exception as usize);
        _Unwind_SetIP(context, (&raw const gpumem_whatif_landing) as usize);
    }
    INSTALL_CONTEXT
}

/// Ends a C++ exception.
extern "C" fn caught(exception: *mut c_void) {
    let (begin, end) = (
        real::cxx(c"__cxa_begin_catch"),
        real::cxx(c"__cxa_end_catch"),
    );
    if begin == 0 || end == 0 {
        return; // it is leaked
    }
    // SAFETY: functions of the C++ library, with an exception that was just caught.
    unsafe {
        let begin: extern "C" fn(*mut c_void) -> *mut c_void = core::mem::transmute(begin);
        let end: extern "C" fn() = core::mem::transmute(end);
        begin(exception);
        end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C-unwind" fn sum(a: u64, b: u64, c: u64, d: u64, e: u64) -> u64 {
        a + 10 * b + 100 * c + 1000 * d + 10_000 * e
    }

    #[test]
    fn what_does_not_throw_gives_its_result() {
        let function = sum as *const () as usize;
        // SAFETY: the function takes five words.
        assert_eq!(unsafe { attempt(function, [1, 2, 3, 4, 5]) }, Some(54321));
        // SAFETY: as above; words that are not passed are 0.
        assert_eq!(unsafe { attempt(function, [1, 2, 3]) }, Some(321));
    }
}
