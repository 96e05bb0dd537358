//! The caller of a hook: the return address of the exported hook, and the registers from which the caller's stack is
//! unwound.
//!
//! Only the first instructions of the exported function have these values, so they store them in the thread's state
//! ([`crate::thread::Thread`], at its start), without changing any register that passes an argument, and jump to the
//! body. The body reads them before any other code runs.

use gpumem_unwind::Registers;

use crate::thread::{self, Thread};

const _: () = {
    assert!(core::mem::offset_of!(Thread, noted) == 0);
    assert!(core::mem::offset_of!(Registers, pc) == 0);
    assert!(core::mem::offset_of!(Registers, sp) == 8);
    assert!(core::mem::offset_of!(Registers, bp) == 16);
};

/// The instructions that store the return address, the stack pointer and the frame pointer.
macro_rules! note {
    () => {
        concat!(
            "mov r11, [rsp]\n",
            "mov r10, [rip + gpumem_thread@GOTTPOFF]\n",
            "mov fs:[r10], r11\n",
            "mov fs:[r10 + 8], rsp\n",
            "mov fs:[r10 + 16], rbp\n",
        )
    };
}
pub(crate) use note;

/// A complete naked function: the given code, with call-frame information, which the compiler does not generate for
/// naked functions, and an entry in the list of them.
///
/// At the first instruction the caller's frame is one word above the stack pointer. After each instruction that
/// changes the stack pointer, the code states the difference (`.cfi_adjust_cfa_offset`).
///
/// The list is the section `.naked_functions`: address and size of each, 8 bytes each. It is not loaded into memory.
/// tests/test_unwind_hooks.py unwinds from each instruction of each function in it.
macro_rules! naked_code {
    ($($line:expr),+; $($operands:tt)*) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "20:",
            $($line,)+
            "21:",
            ".cfi_endproc",
            ".pushsection .naked_functions, \"\", @progbits",
            ".quad 20b, 21b - 20b",
            ".popsection",
            $($operands)*
        )
    };
}
pub(crate) use naked_code;

/// A complete exported hook: stores the return address, the stack pointer and the frame pointer, and jumps to the
/// body.
macro_rules! note_and_go_on {
    ($body:path) => {
        crate::caller::naked_code!(
            crate::caller::note!(),
            "jmp {body}";
            body = sym $body,
        )
    };
}
pub(crate) use note_and_go_on;

/// The same for a hook whose callers leave useful data in rax.
macro_rules! note_with_rax_and_go_on {
    ($body:path) => {
        crate::caller::naked_code!(
            crate::caller::note!(),
            "mov fs:[r10 + {rax}], rax",
            "jmp {body}";
            rax = const core::mem::offset_of!(crate::thread::Thread, rax),
            body = sym $body,
        )
    };
}
pub(crate) use note_with_rax_and_go_on;

/// A complete exported hook whose calls rarely matter: unless the given code jumps to label 2, it jumps to the real
/// function. The very first call always goes to the body, which finds that function and records that the hook is in
/// use.
macro_rules! go_on_or_note {
    ($body:path, $hook:path, $($skip:expr),*) => {
        crate::caller::naked_code!(
            $($skip,)*
            "cmp byte ptr [rip + {hook} + {noted}], 0",
            "je 2f",
            "mov rax, [rip + {hook} + {real}]",
            "test rax, rax",
            "je 2f",
            "jmp rax",
            "2:",
            crate::caller::note!(),
            "jmp {body}";
            hook = sym $hook,
            noted = const core::mem::offset_of!(crate::hook::Hook, noted),
            real = const core::mem::offset_of!(crate::hook::Hook, real),
            body = sym $body,
        )
    };
}
pub(crate) use go_on_or_note;

/// The registers that the exported function stored last on this thread.
#[inline(always)]
pub(crate) fn noted() -> Registers {
    let noted = thread::with(|thread| thread.noted.get());
    // The return address is on top of the stack, and is removed when the call returns.
    let sp = noted.sp.wrapping_add(8);
    Registers { sp, ..noted }
}

/// The same, and rax if it was stored.
#[inline(always)]
pub(crate) fn noted_with_rax() -> (Registers, u64) {
    (noted(), thread::with(|thread| thread.rax.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Seen {
        argument: usize,
        caller: Registers,
    }

    extern "C" fn body(argument: usize) -> Seen {
        let caller = noted();
        Seen { argument, caller }
    }

    #[unsafe(naked)]
    extern "C" fn exported(argument: usize) -> Seen {
        note_and_go_on!(body)
    }

    #[test]
    fn the_caller_is_the_function_that_called() {
        let Seen { argument, caller } = exported(7);
        assert_eq!(argument, 7);
        let here = the_caller_is_the_function_that_called as *const () as u64;
        assert!(
            (here..here + 4096).contains(&caller.pc),
            "{here:x} {caller:x?}"
        );
        let local = (&raw const argument) as u64;
        assert!(caller.sp.abs_diff(local) < 4096, "{local:x} {caller:x?}");
    }
}
