//! A library for `LD_PRELOAD`. Inside real programs it takes stacks with gpumem's unwinder and with the
//! system's (libgcc's) at the same place, and compares them frame by frame.
//!
//! It takes them in functions that real programs call deep in their stacks, at some of the calls, and where
//! a program calls `unwind_check_here`. `UNWIND_CHECK_OUTPUT` names a folder: at exit, each process writes
//! its counts to `PID.json` there, in one line. Without the variable nothing is compared.
//! `UNWIND_CHECK_EVERY` is the average number of calls per stack (16). `UNWIND_CHECK_FAULT` plants a fault
//! that a test must see detected: `frame` or `unloads`.
//!
//! # Design constraints
//! - Nothing is allocated while a stack is compared, because the program may be in its allocator.
//! - Stacks are taken as in the recorder: the exported function stores the registers, each thread has an
//!   unwinder that other threads use later, and each `dlclose` checks for unloaded modules.
//!
//! # Not suitable for
//! Measuring: the system's unwinder is called for each stack.

#![cfg(target_arch = "x86_64")]

mod cause;
mod compare;
mod counts;
mod entry;
mod mismatch;
mod pages;
mod reference;
mod report;
mod seen;
mod thread;

pub use entry::{
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE, calloc, dlclose, free, malloc,
    posix_memalign, unwind_check_here,
};
