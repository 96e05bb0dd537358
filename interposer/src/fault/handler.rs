//! The handler of SIGBUS. It handles faults in our mappings and passes everything else to the host's disposition by
//! a jump: the host's handler gets the stack, the mask and the registers that the kernel set up for ours.

use core::ffi::c_int;

use super::{install, ranges, sys, threads};
use crate::caller::naked_code;

/// An error that hardware reports later; si_code of `SIGBUS`.
const BUS_MCEERR_AO: c_int = 5;
/// A misaligned access, which no mapping can cause.
const BUS_ADRALN: c_int = 1;
/// Raised by the kernel for a fault without an address.
const SI_KERNEL: c_int = 0x80;

/// The handler's address, as the kernel has it.
pub(super) fn address() -> usize {
    entry as *const () as usize
}

/// Entered by the kernel, or called by a handler that was installed over this one by a system call.
#[unsafe(naked)]
unsafe extern "C" fn entry(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
) {
    naked_code!(
        "mov rcx, [rsp]", // where it returns to
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx", // the stack is now aligned
        ".cfi_adjust_cfa_offset 8",
        "call {decide}",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "mov r11, rax",
        "xor eax, eax", // as the kernel enters handlers
        "test r11, r11",
        "jz 2f",
        "jmp r11",
        "2:",
        "ret";
        decide = sym decide,
    )
}

/// Where to continue: the host's handler, or 0 to return.
///
/// # Safety
/// The arguments are those of a signal handler with `SA_SIGINFO`, and its return address.
unsafe extern "C" fn decide(
    _: c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
    returns_to: usize,
) -> usize {
    // SAFETY: the kernel passes a valid structure, and who calls this handler passes it on.
    let (code, address) = match unsafe { info.as_ref() } {
        // SAFETY: any SIGBUS has this field, or zeros in its place.
        Some(info) => (info.si_code, unsafe { info.si_addr() } as usize),
        None => (libc::SI_USER, 0),
    };
    if (BUS_ADRALN + 1..=BUS_MCEERR_AO).contains(&code) && ranges::replace(address, code) {
        return 0;
    }
    let delivered = install::is_entered_by_kernel(returns_to);
    if delivered && code <= 0 && threads::is_own() {
        // SAFETY: the kernel passes a valid context, which is this signal's alone.
        unsafe { threads::hand_on(context) };
        return 0;
    }
    loop {
        let found = install::behind(delivered);
        let action = found.action;
        if action.is_function() {
            let is_for_once = delivered && action.flags & libc::SA_RESETHAND != 0;
            if is_for_once && !install::reset(&found) {
                continue;
            }
            return action.handler;
        }
        // A fault cannot be ignored: the kernel then takes the default action.
        let is_forced = (BUS_ADRALN..BUS_MCEERR_AO).contains(&code) || code == SI_KERNEL;
        if action.handler == libc::SIG_DFL || is_forced {
            install::restore_default();
            // Delivered once this handler has returned, with the registers of the original place.
            // SAFETY: `info` is null or the kernel's.
            unsafe { sys::raise_again(info) };
        }
        return 0;
    }
}
