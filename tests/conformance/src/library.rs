//! libcuda.so.1 and libnvidia-ml.so.1, opened at run time, so that the build needs no toolkit and a
//! machine without a GPU is recognized.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};

/// The result of a function that the library does not export.
pub const MISSING: i32 = -1;

/// A library and the functions that were looked up in it.
pub struct Library {
    handle: *mut c_void,
    found: RefCell<HashMap<&'static str, usize>>,
}

impl Library {
    /// Opens a library by its soname.
    pub fn open(name: &CStr) -> Result<Self, String> {
        // SAFETY: the name is NUL-terminated.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: dlerror returns null or a NUL-terminated text that lives until the next call.
            let told = unsafe { libc::dlerror() };
            if told.is_null() {
                return Err(format!("no {}", name.to_string_lossy()));
            }
            // SAFETY: checked for null.
            return Err(unsafe { CStr::from_ptr(told) }
                .to_string_lossy()
                .into_owned());
        }
        Ok(Self {
            handle,
            found: RefCell::default(),
        })
    }

    /// The address of an exported function, or 0.
    pub fn address(&self, name: &str) -> usize {
        let Ok(name) = CString::new(name) else {
            return 0;
        };
        // SAFETY: the handle is open; the name is NUL-terminated.
        unsafe { libc::dlsym(self.handle, name.as_ptr()) as usize }
    }

    /// The same as [`address`](Self::address), but each name is looked up only once.
    pub fn known(&self, name: &'static str) -> usize {
        if let Some(address) = self.found.borrow().get(name) {
            return *address;
        }
        let address = self.address(name);
        self.found.borrow_mut().insert(name, address);
        address
    }
}

/// Calls an exported function: its result code, or [`MISSING`].
macro_rules! call {
    ($library:expr, $name:literal ( $($type:ty : $argument:expr),* $(,)? )) => {
        match $library.known($name) {
            0 => $crate::library::MISSING,
            address => {
                type Function = unsafe extern "C" fn($($type),*) -> i32;
                // SAFETY: CUDA's headers declare the function with these types.
                let function = unsafe { core::mem::transmute::<usize, Function>(address) };
                // SAFETY: pointers among the arguments are null on purpose or lead to live variables of
                // the type that the function writes.
                unsafe { function($($argument),*) }
            }
        }
    };
}
pub(crate) use call;
