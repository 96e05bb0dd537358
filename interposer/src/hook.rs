//! One entry for each hook: its name, its address, and the function that it stands before.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::account::{self, BoundBy};
use crate::call_counts;
use crate::resolve::libraries::{self, Home};
use crate::resolve::{order, real};

/// Whether a capture without this hook can still be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Allocations go unseen without it.
    Required,
    /// Absent from many CUDA versions, or only a name for what another hook sees.
    Optional,
}

/// A pointer to code, shareable since code does not change.
#[derive(Clone, Copy)]
pub(crate) struct Code(pub(crate) *const c_void);

// SAFETY: the pointer is only compared, handed out and called.
unsafe impl Sync for Code {}

/// One hook, in one cache line: a call looks at most of it.
#[repr(align(64))]
pub(crate) struct Hook {
    /// The exported name.
    pub(crate) name: &'static CStr,
    /// Where the real function lives.
    pub(crate) home: Home,
    /// Whether it matters.
    pub(crate) need: Need,
    /// Whether a call may move device memory and soon returns: PyTorch's functions move none, and who
    /// synchronises may wait for long.
    pub(crate) moves_memory: bool,
    code: Code,
    /// The real function: what comes after ours in the loader's order; 0 until it is known.
    pub(crate) real: AtomicUsize,
    /// The driver's own export of that name; 0 until it is known. Another one than `real` where a
    /// preloaded library after us has the name too.
    exported: AtomicUsize,
    /// Whether it is noted how clients come by it.
    pub(crate) noted: AtomicBool,
}

impl Hook {
    /// An entry whose real function is not known yet.
    pub(crate) const fn new(name: &'static CStr, home: Home, need: Need, code: Code) -> Self {
        Self {
            name,
            home,
            need,
            moves_memory: !home.is_pytorchs() && !contains(name.to_bytes(), b"Synchronize"),
            code,
            real: AtomicUsize::new(0),
            exported: AtomicUsize::new(0),
            noted: AtomicBool::new(false),
        }
    }

    /// Its place among all hooks, from 1: its `ApiId` in the capture.
    #[inline(always)]
    pub(crate) fn id(&self) -> u16 {
        let first = &raw const FIRST;
        ((core::ptr::from_ref(self) as usize - first as usize) / size_of::<Hook>() + 1) as u16
    }

    /// Where clients are sent.
    pub(crate) fn address(&self) -> usize {
        self.code.0 as usize
    }

    /// How the capture names the function: PyTorch's functions go by PyTorch's name.
    pub(crate) fn label(&self) -> &'static [u8] {
        if self.home.is_pytorchs() {
            b"pytorch"
        } else {
            self.name.to_bytes()
        }
    }

    /// Whether a call may wait for long, and move memory then.
    pub(crate) fn waits(&self) -> bool {
        !self.moves_memory && self.home != Home::PyTorch
    }

    /// Whether it only answers a question: it is no part of the account.
    pub(crate) fn is_question(&self) -> bool {
        self.home == Home::Nvml
            || matches!(
                self.name.to_bytes(),
                b"cuMemGetInfo_v2"
                    | b"cuMemGetInfo"
                    | b"cuDeviceTotalMem_v2"
                    | b"cuDeviceTotalMem"
                    | b"cuGetErrorString"
                    | b"cudaGetErrorString"
            )
    }

    /// Whether the driver is its home.
    pub(crate) fn is_driver(&self) -> bool {
        self.home == Home::Driver
    }

    /// Whether there is a function behind the hook, as far as is known.
    pub(crate) fn has_real(&self) -> bool {
        self.real.load(Ordering::Acquire) != 0 || self.exported() != 0
    }

    /// The driver's own export, if it is known; else 0.
    pub(crate) fn exported(&self) -> usize {
        self.exported.load(Ordering::Acquire)
    }

    /// Whether the driver exports the function at `address`.
    pub(crate) fn is_exported_at(&self, address: usize) -> bool {
        self.is_driver() && self.exported() == address
    }

    /// Takes `address` as the driver's own export.
    pub(crate) fn set_exported(&self, address: usize) {
        self.exported.store(address, Ordering::Release);
    }

    /// Notes a call that will return to `caller`: if nobody was handed the hook, the loader has bound
    /// the name to it.
    #[inline]
    pub(crate) fn called(&'static self, caller: usize) {
        call_counts::count(self.id());
        self.note_use(caller);
    }

    /// The same without counting it.
    #[inline(always)]
    pub(crate) fn note_use(&'static self, caller: usize) {
        if !self.noted.load(Ordering::Relaxed) {
            armed(self, BoundBy::Symbol, caller);
        }
    }

    /// Takes `address` as the real function; false if another one was taken before and this is not the
    /// driver's own.
    pub(crate) fn adopt(&self, address: usize) -> bool {
        match self
            .real
            .compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => true,
            Err(known) => known == address || self.exported() == address,
        }
    }

    /// The real function, looked for if it is not known; 0 if there is none.
    #[inline]
    pub(crate) fn real(&self) -> usize {
        match self.real.load(Ordering::Acquire) {
            0 => self.find(),
            known => known,
        }
    }

    /// Looks for the function that comes after ours: by the loader's order first, so that another
    /// preloaded library keeps its turn, then in the library itself, which may be loaded out of the
    /// global scope's sight (RTLD_LOCAL).
    #[cold]
    fn find(&self) -> usize {
        let mut found = real::dlsym(libc::RTLD_NEXT, self.name) as usize;
        if found == 0 || found == self.address() {
            found = libraries::find(self.home, self.name, self.address());
        }
        // A wrapper that is searched before us would call us for ever.
        if found == 0 || found == self.address() || order::before_us(found) {
            return 0;
        }
        self.adopt(found);
        self.real.load(Ordering::Acquire)
    }
}

const fn contains(text: &[u8], part: &[u8]) -> bool {
    let mut start = 0;
    while start + part.len() <= text.len() {
        let mut same = 0;
        while same < part.len() && text[start + same] == part[same] {
            same += 1;
        }
        if same == part.len() {
            return true;
        }
        start += 1;
    }
    false
}

/// Notes that a hook was armed in a way, by the library that holds `caller` (0: not known). It is
/// written with the next event.
#[cold]
#[inline(never)]
pub(crate) fn armed(hook: &Hook, way: BoundBy, caller: usize) {
    if hook.is_question() {
        return;
    }
    hook.noted.store(true, Ordering::Relaxed);
    account::armed(hook.id(), way, caller);
}

// Like everything that the list in lib.rs does not name, they are not exported.
core::arch::global_asm!(
    ".hidden __start_gpumem_hooks",
    ".hidden __stop_gpumem_hooks"
);

unsafe extern "C" {
    /// The section's first hook, and the place behind its last one. The linker defines both.
    #[link_name = "__start_gpumem_hooks"]
    static FIRST: u8;
    #[link_name = "__stop_gpumem_hooks"]
    static END: u8;
}

/// Every hook, in the order of its number.
pub(crate) fn all() -> &'static [Hook] {
    let (first, end) = (&raw const FIRST, &raw const END);
    let (first, end) = (first.cast::<Hook>(), end.cast::<Hook>());
    // SAFETY: nothing but hooks lies in the section: each `entry!` puts one there, of a size that is a multiple of its
    // alignment, so there is nothing between two.
    unsafe {
        let count = end.offset_from(first) as usize;
        core::slice::from_raw_parts(first, count)
    }
}

/// The hook of that exported name.
pub(crate) fn by_name(name: &[u8]) -> Option<&'static Hook> {
    all().iter().find(|hook| hook.name.to_bytes() == name)
}

/// The hook with that number.
pub(crate) fn by_id(id: u16) -> Option<&'static Hook> {
    all().get(usize::from(id).checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places() {
        assert!((150..crate::thread::HOOKS).contains(&all().len()));
        for (place, hook) in all().iter().enumerate() {
            assert_eq!(usize::from(hook.id()), place + 1, "{:?}", hook.name);
            assert_eq!(by_id(hook.id()).map(|h| h.name), Some(hook.name));
            let of_that_name = by_name(hook.name.to_bytes());
            assert_eq!(of_that_name.map(Hook::id), Some(hook.id()));
        }
        assert!(by_id(0).is_none());
        assert!(by_name(b"cuMemcpy").is_none());
    }

    #[test]
    fn who_waits_is_told_from_who_moves_memory() {
        let moves = |name: &[u8]| by_name(name).map(|hook| hook.moves_memory);
        assert_eq!(moves(b"cuMemAlloc_v2"), Some(true));
        assert_eq!(moves(b"cuStreamSynchronize_ptsz"), Some(false));
        assert!(contains(b"abc", b"c") && !contains(b"abc", b"cd") && contains(b"abc", b"abc"));
    }

    #[test]
    fn a_second_driver_is_not_adopted() {
        static HOOK: Hook = Hook::new(c"x", Home::Driver, Need::Optional, Code(core::ptr::null()));
        assert!(HOOK.adopt(16));
        assert!(HOOK.adopt(16));
        assert!(!HOOK.adopt(32));
        assert_eq!(HOOK.real(), 16);
    }
}
