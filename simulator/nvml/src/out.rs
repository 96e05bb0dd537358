//! Output parameters from C. Null is `INVALID_ARGUMENT`.

use crate::result::{Answer, Return};
use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

/// A place for one `T`, or null.
pub type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Writes one value.
pub fn put<T>(out: Out<'_, T>, value: T) -> Answer {
    out.ok_or(Return::INVALID_ARGUMENT)?.write(value);
    Ok(())
}

/// A buffer for text.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct TextOut(*mut c_char);

impl TextOut {
    /// Writes all of `text` into `room` bytes, with its terminator.
    ///
    /// # Errors
    /// `INSUFFICIENT_SIZE` if it does not fit.
    pub fn put(self, text: &str, room: u32) -> Answer {
        if self.0.is_null() {
            return Err(Return::INVALID_ARGUMENT);
        }
        if text.len() >= room as usize {
            return Err(Return::INSUFFICIENT_SIZE);
        }
        // SAFETY: the C caller guarantees `room` bytes, which are more than the text has.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), self.0, text.len());
            self.0.add(text.len()).write(0);
        }
        Ok(())
    }
}

/// Text from C.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// The text, if there is any and it is UTF-8.
    pub fn get(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Return::INVALID_ARGUMENT);
        }
        // SAFETY: the C caller guarantees a terminated string.
        let text = unsafe { CStr::from_ptr(self.0) };
        let text = text.to_str().map_err(|_| Return::INVALID_ARGUMENT)?;
        Ok(text.to_owned())
    }
}

/// A buffer of structures with room for `count`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ListOut<T>(*mut T);

impl<T> ListOut<T> {
    /// Writes `values` and their number. If the buffer is too small or missing, it only writes the
    /// number.
    ///
    /// # Errors
    /// `INSUFFICIENT_SIZE` if they do not fit.
    pub fn put(self, count: Option<&mut u32>, values: Vec<T>) -> Answer {
        let count = count.ok_or(Return::INVALID_ARGUMENT)?;
        let room = *count as usize;
        *count = values.len() as u32;
        if values.is_empty() {
            return Ok(());
        }
        if room < values.len() || self.0.is_null() {
            return Err(Return::INSUFFICIENT_SIZE);
        }
        for (index, value) in values.into_iter().enumerate() {
            // SAFETY: the C caller guarantees room for `count` structures, and there are no more.
            unsafe { self.0.add(index).write_unaligned(value) };
        }
        Ok(())
    }
}
