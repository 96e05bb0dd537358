//! System functions that may be missing: each is looked up once per process.

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};

use gpumem_sys::loaded;

/// Not looked for yet.
const UNKNOWN: usize = 0;
/// The system does not have the function.
const MISSING: usize = 1;

/// An optional function.
pub(crate) struct Function {
    name: &'static CStr,
    address: AtomicUsize,
}

/// All optional functions.
pub(crate) struct Functions {
    pub(crate) find_object: Function,
    #[cfg(target_arch = "x86_64")]
    pub(crate) find_fde: Function,
}

pub(crate) static FUNCTIONS: Functions = Functions {
    find_object: Function::new(c"_dl_find_object"),
    #[cfg(target_arch = "x86_64")]
    find_fde: Function::new(c"_Unwind_Find_FDE"),
};

impl Function {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicUsize::new(UNKNOWN),
        }
    }

    /// Its address.
    pub(crate) fn address(&self) -> Option<usize> {
        let mut address = self.address.load(Ordering::Relaxed);
        if address == UNKNOWN {
            address = loaded::symbol(self.name, |_| true).max(MISSING);
            self.address.store(address, Ordering::Relaxed);
        }
        (address != MISSING).then_some(address)
    }
}
