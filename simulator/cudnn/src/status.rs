//! `cudnnStatus_t`, its texts, and the last failure of each thread.

use gpumem_sim_client::ffi::{Address, Answer};
use std::cell::Cell;
use std::ffi::{CStr, c_char};

/// `cudnnStatus_t` of cuDNN 9.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Status(pub u32);

/// The result of a function's body.
pub type Done<T = ()> = Result<T, Status>;

/// Defines the codes, as constants and with their names as text.
macro_rules! codes {
    ($($name:ident $code:literal;)*) => {
        impl Status {
            $(
                #[doc = concat!("`CUDNN_STATUS_", stringify!($name), "`.")]
                pub const $name: Self = Self($code);
            )*
        }

        fn name(status: Status) -> Option<&'static CStr> {
            match status.0 {
                $($code => Some(
                    const {
                        let text = concat!("CUDNN_STATUS_", stringify!($name), "\0");
                        match CStr::from_bytes_with_nul(text.as_bytes()) {
                            Ok(text) => text,
                            Err(_) => panic!("a name holds a zero"),
                        }
                    },
                ),)*
                _ => None,
            }
        }
    };
}

codes! {
    SUCCESS 0;
    NOT_INITIALIZED 1001;
    SUBLIBRARY_VERSION_MISMATCH 1002;
    SERIALIZATION_VERSION_MISMATCH 1003;
    DEPRECATED 1004;
    LICENSE_ERROR 1005;
    RUNTIME_IN_PROGRESS 1006;
    RUNTIME_FP_OVERFLOW 1007;
    SUBLIBRARY_LOADING_FAILED 1008;
    BAD_PARAM 2000;
    INVALID_VALUE 2001;
    BAD_PARAM_NULL_POINTER 2002;
    BAD_PARAM_MISALIGNED_POINTER 2003;
    BAD_PARAM_NOT_FINALIZED 2004;
    BAD_PARAM_OUT_OF_BOUND 2005;
    BAD_PARAM_SIZE_INSUFFICIENT 2006;
    BAD_PARAM_STREAM_MISMATCH 2007;
    BAD_PARAM_SHAPE_MISMATCH 2008;
    BAD_PARAM_DUPLICATED_ENTRIES 2009;
    BAD_PARAM_ATTRIBUTE_TYPE 2010;
    BAD_PARAM_CUDA_GRAPH_MISMATCH 2011;
    BAD_PARAM_DESCRIPTOR_TYPE 2012;
    NOT_SUPPORTED 3000;
    NOT_SUPPORTED_GRAPH_PATTERN 3001;
    NOT_SUPPORTED_SHAPE 3002;
    NOT_SUPPORTED_DATA_TYPE 3003;
    NOT_SUPPORTED_LAYOUT 3004;
    NOT_SUPPORTED_ARCH_MISMATCH 3007;
    INTERNAL_ERROR 4000;
    INTERNAL_ERROR_HOST_ALLOCATION_FAILED 4003;
    INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED 4004;
    EXECUTION_FAILED 5000;
    EXECUTION_FAILED_CUDA_DRIVER 5001;
}

thread_local! {
    /// The last failure of this thread.
    static LAST: Cell<Status> = const { Cell::new(Status::SUCCESS) };
}

/// The status of a function's body; a failure is stored.
pub fn status(done: Done) -> Status {
    match done {
        Ok(()) => Status::SUCCESS,
        Err(status) => {
            LAST.set(status);
            status
        }
    }
}

/// Converts a result about a caller's pointer: a null pointer is a bad parameter.
///
/// # Errors
/// [`Status::BAD_PARAM`].
pub fn pointer<T>(answer: Answer<T>) -> Done<T> {
    answer.map_err(|_| Status::BAD_PARAM)
}

/// An error with this status unless the condition holds.
///
/// # Errors
/// `otherwise` if the condition is false.
pub fn require(condition: bool, otherwise: Status) -> Done {
    if condition { Ok(()) } else { Err(otherwise) }
}

/// `cudnnGetErrorString`.
pub fn error_string(status: Status) -> *const c_char {
    name(status).unwrap_or(c"CUDNN_UNKNOWN_STATUS").as_ptr()
}

/// `cudnnGetLastErrorString`: the name of this thread's last failure, truncated to the room; empty
/// without a failure.
pub fn last_error_string(place: Address, room: usize) {
    let Some(most) = room.checked_sub(1).filter(|_| place != 0) else {
        return;
    };
    let last = LAST.get();
    let text = match last {
        Status::SUCCESS => c"",
        _ => name(last).unwrap_or(c"CUDNN_UNKNOWN_STATUS"),
    };
    let text = &text.to_bytes()[..most.min(text.count_bytes())];
    // SAFETY: the C caller guarantees `room` bytes at `place`; the text and its terminator need no
    // more.
    let room = unsafe { std::slice::from_raw_parts_mut(place as *mut u8, text.len() + 1) };
    room[..text.len()].copy_from_slice(text);
    room[text.len()] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failure_is_told_within_the_room() {
        assert_eq!(status(Err(Status::BAD_PARAM)), Status::BAD_PARAM);
        assert_eq!(status(Ok(())), Status::SUCCESS);
        for (room, text) in [
            (0, "xxxx"),
            (1, ""),
            (6, "CUDNN"),
            (100, "CUDNN_STATUS_BAD_PARAM"),
        ] {
            let mut place = [b'x'; 100];
            place[4] = if room == 0 { 0 } else { b'x' };
            last_error_string(place.as_mut_ptr() as Address, room);
            let got = CStr::from_bytes_until_nul(&place).unwrap();
            assert_eq!(got.to_str().unwrap(), text, "{room}");
        }
        last_error_string(0, 8);
    }

    #[test]
    fn unknown_codes_have_a_text() {
        for (code, text) in [
            (3000, c"CUDNN_STATUS_NOT_SUPPORTED"),
            (7, c"CUDNN_UNKNOWN_STATUS"),
        ] {
            // SAFETY: the function returns terminated constants.
            assert_eq!(unsafe { CStr::from_ptr(error_string(Status(code))) }, text);
        }
    }
}
