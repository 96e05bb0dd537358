//! Who makes a call: the address to which an exported hook returns.
//!
//! Only the first instructions of the exported function know it, so they write it to a thread-local
//! word, touching no register that an argument travels in, and jump on to the body, which takes it
//! from there before anything else runs. The word is of the initial-exec kind: no call is needed for
//! it, and a preloaded library always has the room.

core::arch::global_asm!(
    ".pushsection .tbss.gpumem_caller,\"awT\",@nobits",
    ".globl gpumem_caller",
    ".hidden gpumem_caller",
    ".type gpumem_caller, @object",
    ".size gpumem_caller, 8",
    ".p2align 3",
    "gpumem_caller:",
    ".zero 8",
    ".popsection",
);

/// The whole of an exported hook: notes the return address and jumps on to the body.
macro_rules! note_and_go_on {
    ($body:path) => {
        core::arch::naked_asm!(
            "mov r11, [rsp]",
            "mov r10, [rip + gpumem_caller@GOTTPOFF]",
            "mov fs:[r10], r11",
            "jmp {body}",
            body = sym $body,
        )
    };
}
pub(crate) use note_and_go_on;

/// What the exported function noted last on this thread.
#[inline(always)]
pub(crate) fn noted() -> usize {
    let caller: usize;
    // SAFETY: the word is in this thread's static thread-local storage.
    unsafe {
        core::arch::asm!(
            "mov {caller}, [rip + gpumem_caller@GOTTPOFF]",
            "mov {caller}, fs:[{caller}]",
            caller = out(reg) caller,
            options(nostack, readonly, preserves_flags),
        );
    }
    caller
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Seen {
        argument: usize,
        caller: usize,
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
        let here = the_caller_is_the_function_that_called as *const () as usize;
        assert!((here..here + 4096).contains(&caller), "{here:x} {caller:x}");
    }
}
