//! Result codes (`nvmlReturn_t`).

use std::ffi::{CStr, c_char};

/// `nvmlReturn_t`. Only the codes below have names.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return(pub u32);

impl Return {
    /// Done.
    pub const SUCCESS: Self = Self(0);
    /// `nvmlInit` has not been called.
    pub const UNINITIALIZED: Self = Self(1);
    /// A parameter is wrong.
    pub const INVALID_ARGUMENT: Self = Self(2);
    /// This card cannot do that.
    pub const NOT_SUPPORTED: Self = Self(3);
    /// No such device.
    pub const NOT_FOUND: Self = Self(6);
    /// The buffer is too small.
    pub const INSUFFICIENT_SIZE: Self = Self(7);
    /// The structure's version is not known.
    pub const ARGUMENT_VERSION_MISMATCH: Self = Self(25);

    fn text(self) -> &'static CStr {
        match self.0 {
            0 => c"Success",
            1 => c"Uninitialized",
            2 => c"Invalid Argument",
            3 => c"Not Supported",
            4 => c"Insufficient Permissions",
            6 => c"Not Found",
            7 => c"Insufficient Size",
            9 => c"Driver Not Loaded",
            13 => c"Function Not Found",
            25 => c"Argument Version Mismatch",
            999 => c"Unknown Error",
            _ => c"Unknown return code",
        }
    }
}

/// The result of a function's body.
pub(crate) type Answer<T = ()> = Result<T, Return>;

/// The result code of a function's body; `UNINITIALIZED` before `nvmlInit`.
pub(crate) fn answer(inside: impl FnOnce() -> Answer) -> Return {
    if !crate::started::is_initialised() {
        return Return::UNINITIALIZED;
    }
    match inside() {
        Ok(()) => Return::SUCCESS,
        Err(code) => code,
    }
}

/// `nvmlErrorString`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn nvmlErrorString(result: Return) -> *const c_char {
    result.text().as_ptr()
}
