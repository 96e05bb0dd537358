//! What passes between C and these libraries, as types that can be used safely.
//!
//! The contract is C's own: a pointer that is not null is valid for what the function's
//! documentation says it reads or writes. A null pointer where one is needed is answered with
//! "invalid value", as CUDA does.

use gpumem_cuda_abi::{CuResult, CudaError};
use std::ffi::{CStr, c_char};

/// What the inside of a function gives: nothing, or the error to return.
pub type Answer<T = (), E = CudaError> = Result<T, E>;

/// A handle of CUDA's: passed on, never followed.
pub type Handle = usize;

/// An address of the program's or of a device's: passed on, never followed here.
pub type Address = usize;

/// Where a C function wants one `T` (or an array of them) written.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// No place: the answer is not wanted.
    pub const NOWHERE: Self = Self(std::ptr::null_mut());

    /// A variable of our own, for a call that is over before the variable is gone.
    pub fn to(variable: &mut T) -> Self {
        Self(variable)
    }

    /// A place that C gave as an address (a pointer to a pointer, say).
    pub fn at(address: Address) -> Self {
        Self(address as *mut T)
    }

    /// Whether there is a place at all.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes `value`.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if there is no place.
    pub fn put(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: a non-null Out comes from a C caller, who vouches that it is valid for writing a
        // T, or from `to`; CUDA promises no alignment beyond C's, hence unaligned.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes `value` if there is a place.
    pub fn put_if_asked(self, value: T) {
        // Without a place nothing is lost.
        let _ = self.put(value);
    }

    /// Reads what is there (parameters that go in and out).
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if there is no place.
    pub fn get(self) -> Answer<T>
    where
        T: Copy,
    {
        In(self.0.cast_const()).get()
    }

    /// The same place, for a value of another type.
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }
}

/// Where a C function finds one `T` (or an array of them).
#[repr(transparent)]
#[derive(Debug)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> In<T> {
    /// A value of our own, for a call that is over before the value is gone.
    pub fn of(value: &T) -> Self {
        Self(value)
    }

    /// An array of our own, likewise.
    pub fn all(values: &[T]) -> Self {
        Self(values.as_ptr())
    }

    /// Whether there is nothing.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Reads it.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if there is nothing.
    pub fn get(self) -> Answer<T>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: a non-null In comes from a C caller, who vouches that it is valid for reading a
        // T, or from `of`.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads the element at `place` of an array that is known to have one there.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if there is nothing.
    pub fn nth(self, place: usize) -> Answer<T>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // The caller says how long its array is, and asks for no element beyond.
        Self(self.0.wrapping_add(place)).get()
    }
}

/// A C string.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

impl Text {
    /// A string of our own that lives as long as the program.
    pub fn constant(text: &'static CStr) -> Self {
        Self(text.as_ptr())
    }

    /// A string of our own, for a call that is over before the string is gone.
    pub fn of(text: &CStr) -> Self {
        Self(text.as_ptr())
    }

    /// A copy of it.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if it is missing.
    pub fn get(self) -> Answer<std::ffi::CString> {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the C caller vouches for a terminated string; it is copied at once.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_owned())
    }
}

/// `condition`, or `cudaErrorInvalidValue`.
///
/// # Errors
/// When it does not hold.
pub fn require(condition: bool) -> Answer {
    if condition {
        Ok(())
    } else {
        Err(CudaError::INVALID_VALUE)
    }
}

/// The driver's result code as ours.
///
/// # Errors
/// Any but success.
pub fn check(result: CuResult) -> Answer {
    if result.is_success() {
        Ok(())
    } else {
        Err(result.into())
    }
}
