//! Memory that this process holds to represent what else was on the recorded card.

use core::ffi::{c_int, c_void};

use crate::real;

/// The granularity of the card's memory.
const PAGE: u64 = 2 << 20;

type Malloc = extern "C" fn(*mut *mut c_void, usize) -> c_int;
type Free = extern "C" fn(*mut c_void) -> c_int;

/// Blocks of CUDA's runtime, the newest last.
pub(crate) struct Ballast {
    malloc: Malloc,
    free: Free,
    blocks: Vec<(*mut c_void, u64)>,
    bytes: u64,
    /// The bytes that this process always has on the card.
    own: u64,
}

impl Ballast {
    /// `None` without a runtime.
    pub(crate) fn new(own: u64) -> Option<Self> {
        let (malloc, free) = (real::next(c"cudaMalloc"), real::next(c"cudaFree"));
        if malloc == 0 || free == 0 {
            return None;
        }
        // SAFETY: the runtime's functions of these types.
        let (malloc, free) = unsafe {
            (
                core::mem::transmute::<usize, Malloc>(malloc),
                core::mem::transmute::<usize, Free>(free),
            )
        };
        Some(Self {
            malloc,
            free,
            blocks: Vec::new(),
            bytes: 0,
            own,
        })
    }

    /// Resizes the ballast to so many bytes, this process's own included; returns whether the card
    /// had them.
    pub(crate) fn set(&mut self, bytes: u64) -> bool {
        let wanted = bytes.saturating_sub(self.own).next_multiple_of(PAGE);
        while self.bytes > wanted {
            let Some((block, bytes)) = self.blocks.pop() else {
                break;
            };
            (self.free)(block);
            self.bytes -= bytes;
        }
        let missing = wanted - self.bytes;
        if missing == 0 {
            return true;
        }
        let mut block = core::ptr::null_mut();
        if (self.malloc)(&raw mut block, missing as usize) != 0 {
            return false;
        }
        self.blocks.push((block, missing));
        self.bytes = wanted;
        true
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        for (block, _) in self.blocks.drain(..) {
            (self.free)(block);
        }
    }
}
