//! An owning `std::shared_ptr` of libstdc++.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, Ordering};

/// A `std::shared_ptr`: passed by address, and returned through a pointer to its storage.
#[repr(C)]
#[derive(Debug)]
pub struct Shared {
    object: u64,
    control: *mut Control,
}

/// `std::_Sp_counted_base`.
#[repr(C)]
#[derive(Debug)]
struct Control {
    functions: *const Functions,
    uses: AtomicI32,
    /// The weak references, plus one for all owning references.
    weak: AtomicI32,
}

/// Its vtable, by the Itanium ABI.
#[repr(C)]
struct Functions {
    destructors: [usize; 2],
    /// Destroys the object.
    dispose: extern "C-unwind" fn(*mut Control),
    /// Destroys the control block.
    destroy: extern "C-unwind" fn(*mut Control),
}

impl Default for Shared {
    /// An empty pointer.
    fn default() -> Self {
        Self {
            object: 0,
            control: null_mut(),
        }
    }
}

impl Shared {
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.object == 0
    }

    fn control(&self) -> Option<&Control> {
        // SAFETY: it is null, or stays as long as it is owned.
        unsafe { self.control.as_ref() }
    }
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        if let Some(control) = self.control() {
            control.uses.fetch_add(1, Ordering::Relaxed);
        }
        Self {
            object: self.object,
            control: self.control,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(control) = self.control() else {
            return;
        };
        // SAFETY: it begins with the address of its table.
        let functions = unsafe { &*control.functions };
        if control.uses.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        (functions.dispose)(self.control);
        if control.weak.fetch_sub(1, Ordering::AcqRel) == 1 {
            (functions.destroy)(self.control);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The base, and the functions that were called, in order.
    #[repr(C)]
    struct Counted {
        base: Control,
        disposed: AtomicI32,
        destroyed: AtomicI32,
    }

    extern "C-unwind" fn dispose(of: *mut Control) {
        // SAFETY: the control is that of the test.
        let of = unsafe { &*of.cast::<Counted>() };
        assert_eq!(of.destroyed.load(Ordering::Relaxed), 0);
        of.disposed.fetch_add(1, Ordering::Relaxed);
    }

    extern "C-unwind" fn destroy(of: *mut Control) {
        // SAFETY: as above.
        let of = unsafe { &*of.cast::<Counted>() };
        assert_eq!(of.disposed.load(Ordering::Relaxed), 1);
        of.destroyed.fetch_add(1, Ordering::Relaxed);
    }

    static FUNCTIONS: Functions = Functions {
        destructors: [0; 2],
        dispose,
        destroy,
    };

    #[test]
    fn the_last_owner_destroys_the_object() {
        let counted = Box::into_raw(Box::new(Counted {
            base: Control {
                functions: &raw const FUNCTIONS,
                uses: AtomicI32::new(1),
                weak: AtomicI32::new(1),
            },
            disposed: AtomicI32::new(0),
            destroyed: AtomicI32::new(0),
        }));
        let first = Shared {
            object: 7,
            control: counted.cast(),
        };
        // SAFETY: it is freed at the end of the test.
        let of = unsafe { &*counted };
        let second = first.clone();
        drop(first);
        assert_eq!(of.disposed.load(Ordering::Relaxed), 0);
        drop(second);
        assert_eq!(of.destroyed.load(Ordering::Relaxed), 1);
        // SAFETY: it is the test's own.
        drop(unsafe { Box::from_raw(counted) });
    }

    #[test]
    fn one_that_owns_nothing_is_two_words_of_zero() {
        let empty = Shared::default();
        assert!(empty.is_empty() && empty.clone().is_empty());
        assert_eq!(size_of::<Shared>(), 16);
    }
}
