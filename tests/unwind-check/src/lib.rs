//! A library to be preloaded: inside real programs it takes stacks by gpumem's unwinder and by the system's
//! (libgcc's), from the same place, and compares them frame by frame.
//!
//! It does so in functions that real programs call deep in their stacks, for some of the calls, and
//! wherever a program calls `unwind_check_here`. `UNWIND_CHECK_OUTPUT` names a folder: at exit, each process
//! writes `PID.json` there, one line with what was found. Without the variable nothing is compared.
//! `UNWIND_CHECK_EVERY` says how many calls there are to a stack, on average (16).
//! `UNWIND_CHECK_FAULT` plants a fault, so that a test can see it noticed: `frame` or `unloads`.
//!
//! # Design constraints
//! - Nothing is allocated while a stack is compared: the program may be in its allocator.
//! - The recorder's own way: registers noted by the exported function, an unwinder for each thread that
//!   other threads use later, a look at what is unloaded after each `dlclose`.
//!
//! # Not suitable for
//! Measuring: the system's unwinder is asked for each stack.

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
