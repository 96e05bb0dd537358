//! Types for the parameters that C passes to a driver function, with a safe interface.
//!
//! Each function of the driver's API is an ordinary `extern "C"` function whose pointers are the
//! newtypes of this module. The contract is C's own: a pointer that is not null is valid for the
//! reads and writes that the function's documentation describes. A null pointer returns
//! `CUDA_ERROR_INVALID_VALUE`, as in the driver.

use gpumem_cuda_abi::CuResult;
use libc::c_char;
use std::ffi::CStr;
use std::num::NonZero;

/// An error of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct CuError(NonZero<u32>);

/// The result of a driver function: nothing, or the driver's error. C gets it as a `CUresult`: Rust
/// guarantees that a `Result` of `()` and a transparent `NonZero` is passed as the number, 0 for
/// `Ok`.
pub type Answer<T = ()> = Result<T, CuError>;

impl CuError {
    /// An error from CUDA's code for it.
    pub const fn of(code: CuResult) -> Self {
        match NonZero::new(code.0) {
            Some(code) => Self(code),
            None => panic!("success is no error"),
        }
    }
}

macro_rules! errors {
    ($($name:ident)*) => {
        #[allow(missing_docs)] // those of `CuResult`
        impl CuError {
            $(pub const $name: Self = Self::of(CuResult::$name);)*
        }
    };
}

errors! {
    CAPTURED_EVENT CONTEXT_IS_DESTROYED FILE_NOT_FOUND GRAPH_EXEC_UPDATE_FAILURE HOST_MEMORY_ALREADY_REGISTERED
    HOST_MEMORY_NOT_REGISTERED ILLEGAL_ADDRESS ILLEGAL_STATE INVALID_CONTEXT INVALID_DEVICE INVALID_HANDLE
    INVALID_VALUE MAP_FAILED NOT_FOUND NOT_INITIALIZED NOT_SUPPORTED NO_DEVICE OPERATING_SYSTEM OUT_OF_MEMORY
    PEER_ACCESS_ALREADY_ENABLED PEER_ACCESS_NOT_ENABLED STREAM_CAPTURE_IMPLICIT STREAM_CAPTURE_INVALIDATED
    STREAM_CAPTURE_ISOLATION STREAM_CAPTURE_MERGE STREAM_CAPTURE_UNJOINED STREAM_CAPTURE_UNMATCHED
    STREAM_CAPTURE_UNSUPPORTED STREAM_CAPTURE_WRONG_THREAD UNSUPPORTED_LIMIT
}

/// `Err(INVALID_VALUE)` unless `condition` holds.
pub fn require(condition: bool) -> Answer {
    if condition {
        Ok(())
    } else {
        Err(CuError::INVALID_VALUE)
    }
}

/// Where to write one `T`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Whether the pointer is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes `value`; `INVALID_VALUE` if the pointer is null.
    pub fn put(self, value: T) -> Answer {
        require(!self.0.is_null())?;
        // SAFETY: an `Out` comes only from a C caller, who guarantees that a non-null pointer is
        // valid for writing a T; CUDA promises no alignment beyond C's, so the write is unaligned.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes `value` unless the pointer is null.
    pub fn put_if_asked(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `put`.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Reads the caller's value (for parameters that are read and written).
    pub fn get(self) -> Answer<T>
    where
        T: Copy,
    {
        require(!self.0.is_null())?;
        // SAFETY: as in `put`; used only for parameters that CUDA documents as in and out.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Writes `values` from here on; the C caller has announced room for at least that many.
    pub fn put_all(self, values: &[T]) -> Answer
    where
        T: Copy,
    {
        require(!self.0.is_null() || values.is_empty())?;
        for (index, value) in values.iter().enumerate() {
            // SAFETY: as in `put`; the callers of this function pass no more values than the C
            // caller announced room for.
            unsafe { self.0.add(index).write_unaligned(*value) };
        }
        Ok(())
    }
}

impl<T> Out<T> {
    /// Writes to the place at `index`; the C caller has announced room for more than `index`
    /// values.
    pub fn put_at(self, index: usize, value: T) -> Answer {
        Out(self.0.wrapping_add(index)).put(value)
    }

    /// The same place, for a value of another type (if the type depends on the attribute).
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl<T> In<T> {
    /// The same place, with a value of another type in it.
    pub fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }
}

/// A `T` to read.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Reads the value; `INVALID_VALUE` if the pointer is null.
    pub fn get(self) -> Answer<T> {
        require(!self.0.is_null())?;
        // SAFETY: an `In` comes only from a C caller, who guarantees that a non-null pointer is
        // valid for reading a T.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads `count` values.
    pub fn list(self, count: usize) -> Answer<Vec<T>> {
        require(!self.0.is_null() || count == 0)?;
        // SAFETY: as in `get`; the C caller passes the count with the pointer.
        Ok((0..count)
            .map(|index| unsafe { self.0.add(index).read_unaligned() })
            .collect())
    }
}

/// A C string to read.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// The string; `INVALID_VALUE` if the pointer is null.
    pub fn get(self) -> Answer<&'static CStr> {
        require(!self.0.is_null())?;
        // SAFETY: the C caller guarantees a terminated string that outlives the call; no function
        // here keeps the reference longer.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }
}

/// A buffer for a C string.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct TextOut(*mut c_char);

impl TextOut {
    /// Writes as much of `text` as fits in `room` bytes, with its terminator.
    pub fn put(self, text: &str, room: i32) -> Answer {
        require(!self.0.is_null() && room > 0)?;
        let length = text.len().min(room as usize - 1);
        // SAFETY: the C caller guarantees `room` bytes, and length + 1 <= room.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), self.0, length);
            self.0.add(length).write(0);
        }
        Ok(())
    }
}

/// A handle as a number: looked up, never dereferenced.
pub type Handle = usize;
