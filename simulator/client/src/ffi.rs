//! Types for values that pass between C and these libraries, with a safe interface.
//!
//! The contract is C's own: a pointer that is not null is valid for the reads and writes that the
//! function's documentation describes. A null pointer where one is needed returns "invalid value",
//! as in CUDA.

use gpumem_cuda_abi::{CuResult, CudaError};
use std::ffi::{CStr, c_char};

/// The result of a function's body: a value, or the error to return.
pub type Answer<T = (), E = CudaError> = Result<T, E>;

/// A handle of CUDA's: passed on, never dereferenced.
pub type Handle = usize;

/// An address in the program or on a device: passed on, never dereferenced here.
pub type Address = usize;

/// Where a C function writes one `T` (or an array of them).
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
    /// A null pointer: the caller does not want the value.
    pub const NOWHERE: Self = Self(std::ptr::null_mut());

    /// A variable of this library, for a call that ends before the variable does.
    pub fn to(variable: &mut T) -> Self {
        Self(variable)
    }

    /// A place whose address C passed (a pointer to a pointer, for example).
    pub fn at(address: Address) -> Self {
        Self(address as *mut T)
    }

    /// Whether the pointer is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes `value`.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if the pointer is null.
    pub fn put(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: a non-null Out comes from a C caller, who guarantees that it is valid for writing
        // a T, or from `to`; CUDA promises no alignment beyond C's, so the write is unaligned.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes `value` unless the pointer is null.
    pub fn put_if_asked(self, value: T) {
        // A null pointer means that the caller does not want the value.
        let _ = self.put(value);
    }

    /// Reads the current value (for parameters that are read and written).
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if the pointer is null.
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

/// Where a C function reads one `T` (or an array of them).
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
    /// A value of this library, for a call that ends before the value does.
    pub fn of(value: &T) -> Self {
        Self(value)
    }

    /// An array of this library, likewise.
    pub fn all(values: &[T]) -> Self {
        Self(values.as_ptr())
    }

    /// Whether the pointer is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Reads the value.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if the pointer is null.
    pub fn get(self) -> Answer<T>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: a non-null In comes from a C caller, who guarantees that it is valid for reading
        // a T, or from `of`.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads element `place` of an array that has at least `place + 1` elements.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if the pointer is null.
    pub fn nth(self, place: usize) -> Answer<T>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // The caller passes the array's length and reads no element beyond it.
        Self(self.0.wrapping_add(place)).get()
    }
}

/// A C string.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

impl Text {
    /// A string of this library that lives as long as the program.
    pub fn constant(text: &'static CStr) -> Self {
        Self(text.as_ptr())
    }

    /// A string of this library, for a call that ends before the string does.
    pub fn of(text: &CStr) -> Self {
        Self(text.as_ptr())
    }

    /// A copy of the string.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if the pointer is null.
    pub fn get(self) -> Answer<std::ffi::CString> {
        if self.0.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the C caller guarantees a terminated string; it is copied at once.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_owned())
    }
}

/// An error unless the condition holds.
///
/// # Errors
/// `cudaErrorInvalidValue` if the condition is false.
pub fn require(condition: bool) -> Answer {
    if condition {
        Ok(())
    } else {
        Err(CudaError::INVALID_VALUE)
    }
}

/// Converts the driver's result code.
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
