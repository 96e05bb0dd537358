//! Native stacks of the calling thread, captured in process, and the modules that their addresses
//! belong to.
//!
//! ```
//! let mut addresses = [0; 64];
//! let captured = gpumem_unwind::capture(&mut addresses, 0);
//! let module = gpumem_unwind::modules::describe(addresses[0]).unwrap();
//! assert!(captured.len > 0 && module.span.contains(addresses[0]));
//! ```
//!
//! # Words
//! - A **return address** is absolute: where a call returns to. The call itself is before it, so look
//!   addresses up at `address - 1`.
//! - A **module** is one load of the program, a shared library or the vDSO. Its **bias** is the
//!   difference between where it was loaded and where it was linked.
//!
//! # Design constraints
//! - Works inside any function that any program may call: nothing here panics, prints or allocates,
//!   except [`modules::describe`], which creates a path.
//! - Addresses only: symbols are found later, in another process, from the module's build id.
//! - Independent of CUDA and of captures.
//!
//! # Not suitable for
//! - Other threads, other processes, and signal handlers that may have interrupted the loader.

mod bounds;
mod build_id;
mod capture;
mod functions;
pub mod modules;
mod object;
#[cfg(not(target_arch = "x86_64"))]
mod other_arch;
mod system;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use bounds::stack;
pub use build_id::BuildId;
pub use capture::{Captured, capture};
#[cfg(not(target_arch = "x86_64"))]
pub use other_arch::Unwinder;
#[cfg(target_arch = "x86_64")]
pub use x86_64::Unwinder;

/// Frames of a stack that are kept, the newest.
pub const FRAMES: usize = 512;

/// The registers from which a stack is captured.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The return address of a call that is in progress.
    pub pc: u64,
    /// The stack pointer after it has returned.
    pub sp: u64,
    /// The frame pointer of the caller.
    pub bp: u64,
}

#[cfg(target_arch = "x86_64")]
impl Registers {
    /// The registers of the caller of this function.
    #[inline(always)]
    fn here() -> Self {
        let (pc, sp, bp);
        // SAFETY: three registers are read.
        unsafe {
            core::arch::asm!(
                "lea {pc}, [rip]",
                "mov {sp}, rsp",
                "mov {bp}, rbp",
                pc = out(reg) pc,
                sp = out(reg) sp,
                bp = out(reg) bp,
                options(nomem, nostack, preserves_flags),
            );
        }
        Self { pc, sp, bp }
    }
}

/// A captured stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The hash over all frames.
    pub hash: u64,
    /// The number of frames.
    pub len: usize,
    /// Whether older frames were cut off because there was no room.
    pub truncated: bool,
}

/// The hash of the stack of `hash` with one more, newer frame. Among a million stacks, the
/// probability that two different ones collide is 3·10⁻⁸.
#[inline]
fn chain(hash: u64, pc: u64) -> u64 {
    let product = u128::from(pc ^ 0x9e37_79b9_7f4a_7c15) * 0xc2b2_ae3d_27d4_eb4f;
    let mixed = (product as u64) ^ (product >> 64) as u64;
    (hash.rotate_left(23) ^ mixed).wrapping_mul(0xd6e8_feb8_6659_fd93)
}
