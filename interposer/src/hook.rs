//! One entry for each hook: its name, its address, and the real function behind it.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::account::{self, BoundBy};
use crate::call_counts;
use crate::resolve::libraries::{self, Home};
use crate::resolve::order;

/// Whether a capture without this hook can still be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Allocations are missed without it.
    Required,
    /// Missing in many CUDA versions, or only a name for calls that another hook records.
    Optional,
}

/// A pointer to code, shareable because code does not change.
#[derive(Clone, Copy)]
pub(crate) struct Code(pub(crate) *const c_void);

// SAFETY: the pointer is only compared, handed out and called.
unsafe impl Sync for Code {}

/// One hook, in one cache line: a call reads most of it.
#[repr(align(64))]
pub(crate) struct Hook {
    /// The exported name.
    pub(crate) name: &'static CStr,
    /// The library of the real function.
    pub(crate) home: Home,
    /// Whether it is required.
    pub(crate) need: Need,
    /// Whether a call may change device memory and returns soon: PyTorch's functions change none, and synchronising
    /// calls may wait for long.
    pub(crate) moves_memory: bool,
    code: Code,
    /// The real function: the next one after ours in the loader's order; 0 until it is known.
    pub(crate) real: AtomicUsize,
    /// The driver's own export of that name; 0 until it is known. It differs from `real` if a later preloaded library
    /// has the name too.
    exported: AtomicUsize,
    /// Whether it is recorded how clients get it.
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

    /// Its index among all hooks, from 1: its `ApiId` in the capture.
    #[inline(always)]
    pub(crate) fn id(&self) -> u16 {
        let first = &raw const FIRST;
        ((core::ptr::from_ref(self) as usize - first as usize) / size_of::<Hook>() + 1) as u16
    }

    /// The address that clients get.
    pub(crate) fn address(&self) -> usize {
        self.code.0 as usize
    }

    /// The function's name in the capture: PyTorch's functions have PyTorch's name.
    pub(crate) fn label(&self) -> &'static [u8] {
        if self.home.is_pytorchs() {
            b"pytorch"
        } else {
            self.name.to_bytes()
        }
    }

    /// Whether a call may wait for long and change memory at its end.
    pub(crate) fn waits(&self) -> bool {
        !self.moves_memory && self.home != Home::PyTorch
    }

    /// Whether it is only a query: it is not part of the account.
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
                    | b"cudaGetLastError"
                    | b"cudaPeekAtLastError"
            )
    }

    /// Whether the real function is the driver's.
    pub(crate) fn is_driver(&self) -> bool {
        self.home == Home::Driver
    }

    /// Whether a real function is known.
    pub(crate) fn has_real(&self) -> bool {
        self.real.load(Ordering::Acquire) != 0 || self.exported() != 0
    }

    /// The driver's own export, if it is known; otherwise 0.
    pub(crate) fn exported(&self) -> usize {
        self.exported.load(Ordering::Acquire)
    }

    /// Whether the driver exports the function at `address`.
    pub(crate) fn is_exported_at(&self, address: usize) -> bool {
        self.is_driver() && self.exported() == address
    }

    /// Sets `address` as the driver's own export.
    pub(crate) fn set_exported(&self, address: usize) {
        self.exported.store(address, Ordering::Release);
    }

    /// Records a call that will return to `caller`. If the hook was not returned to any client, the loader has bound
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

    /// Sets `address` as the real function; false if another one was set before, is still loaded, and this is not the
    /// driver's own.
    pub(crate) fn adopt(&self, address: usize) -> bool {
        loop {
            let swap = self
                .real
                .compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire);
            match swap {
                Ok(_) => return true,
                Err(known) if known == address || self.exported() == address => return true,
                Err(known) if order::place_of(known).is_some() => return false,
                Err(known) => forget(&self.real, known),
            }
        }
    }

    /// The real function if it is known; otherwise 0.
    pub(crate) fn known(&self) -> usize {
        self.real.load(Ordering::Acquire)
    }

    /// The real function, searched for if it is not known; 0 if it does not exist.
    #[inline]
    pub(crate) fn real(&self) -> usize {
        match self.real.load(Ordering::Acquire) {
            0 => self.find(),
            known => known,
        }
    }

    /// Searches for the function after ours: first in the loader's order, so that other preloaded libraries stay in
    /// the chain, then in the library itself, which may be loaded outside the global scope (RTLD_LOCAL).
    #[cold]
    fn find(&self) -> usize {
        let found = libraries::after_ours(self.home, self.name, self.address());
        // A wrapper that is searched before us would call us endlessly.
        if found == 0 || found == self.address() || order::before_us(found) {
            return 0;
        }
        self.adopt(found);
        self.real.load(Ordering::Acquire)
    }
}

/// Forgets an address.
fn forget(place: &AtomicUsize, address: usize) {
    let _ = place.compare_exchange(address, 0, Ordering::AcqRel, Ordering::Relaxed);
}

/// Forgets the functions of libraries that are not loaded any more: called when one has been unloaded. They are
/// searched for again when they are needed.
#[cold]
pub(crate) fn forget_unloaded() {
    let known = || {
        all()
            .iter()
            .flat_map(|hook| [&hook.real, &hook.exported])
            .map(|place| (place, place.load(Ordering::Acquire)))
            .filter(|(_, address)| *address != 0)
    };
    for (place, address) in known() {
        if order::place_of(address).is_none() {
            forget(place, address);
        }
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

/// Records that a hook was installed by a method, by the library that holds `caller` (0 if unknown). It is written
/// with the next event.
#[cold]
#[inline(never)]
pub(crate) fn armed(hook: &Hook, way: BoundBy, caller: usize) {
    if hook.is_question() {
        return;
    }
    hook.noted.store(true, Ordering::Relaxed);
    account::armed(hook.id(), way, caller);
}

// Like everything that is not in the list in lib.rs, they are not exported.
core::arch::global_asm!(
    ".hidden __start_gpumem_hooks",
    ".hidden __stop_gpumem_hooks"
);

unsafe extern "C" {
    /// The section's first hook, and the end of its last one. The linker defines both.
    #[link_name = "__start_gpumem_hooks"]
    static FIRST: u8;
    #[link_name = "__stop_gpumem_hooks"]
    static END: u8;
}

/// Every hook, in the order of its number.
pub(crate) fn all() -> &'static [Hook] {
    let (first, end) = (&raw const FIRST, &raw const END);
    let (first, end) = (first.cast::<Hook>(), end.cast::<Hook>());
    // SAFETY: the section contains only hooks: each `entry!` adds one, of a size that is a multiple of its alignment,
    // so there is no padding between two.
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
        let (first, second) = (libc::getpid as *const () as usize, 32);
        assert!(HOOK.adopt(first));
        assert!(HOOK.adopt(first));
        assert!(!HOOK.adopt(second));
        assert_eq!(HOOK.real(), first);
        // Nothing is loaded there.
        HOOK.real.store(64, Ordering::Release);
        assert!(HOOK.adopt(second));
        assert_eq!(HOOK.real(), second);
    }
}
