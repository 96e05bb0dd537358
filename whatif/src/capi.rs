//! The C API that python/gpumem/_whatif calls by ctypes.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use gpumem_capture::DeviceOrdinal;

use crate::assumed::Assumed;
use crate::replay;
use crate::save;
use crate::survey::Survey;
use crate::wanted::{Outcome, Wanted};

/// A stream: its handle in the recorded process, and its number in PyTorch, `u64::MAX` if that is unknown.
pub type Pair = [u64; 2];

/// A stream: its handles in the recorded process and in this one, and its number in this one's PyTorch.
pub type Same = [u64; 3];

/// The request for a replay.
#[repr(C)]
pub struct Request {
    /// The capture's path.
    pub capture: *const c_char,
    /// The recorded device.
    pub device: u64,
    /// The survey of this capture and device.
    pub survey: *const Survey,
    /// The streams that the capture names.
    pub streams: *const Same,
    /// Their number.
    pub stream_count: u64,
    /// The bytes of this process on the card outside the allocator's memory.
    pub own_bytes: u64,
    /// Passes settings to PyTorch at run time; returns 0 on success.
    pub set: Option<extern "C" fn(*const c_char) -> i64>,
    /// Is called with the part of the capture that has been read, from 0 to 1; may be null.
    pub progress: Option<extern "C" fn(f64)>,
    /// Where to write the replay as a capture: a path that does not exist; null to write none.
    pub save: *const c_char,
    /// The card's bytes, for that capture.
    pub card_bytes: u64,
    /// The facts of the process in that capture.
    pub facts: *const Fact,
    /// Their number.
    pub fact_count: u64,
    /// Assumptions about what the capture lacks: bits of `Assumed`.
    pub assumed: u64,
    /// The replay ends once the allocator holds more bytes than this; 0: no limit.
    pub most_reserved: u64,
}

/// A fact of a process.
#[repr(C)]
pub struct Fact {
    /// Its key.
    pub key: *const c_char,
    /// Its value.
    pub value: *const c_char,
}

/// Space for a message.
#[repr(C)]
pub struct Message {
    /// Its text, NUL-terminated.
    pub text: [c_char; 1024],
}

impl Message {
    fn set(&mut self, text: &str) {
        let bytes = text
            .bytes()
            .filter(|&byte| byte != 0)
            .take(self.text.len() - 1);
        let bytes = bytes.chain([0]);
        self.text
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = from.cast_signed());
    }
}

/// # Safety
/// `path` is a NUL-terminated path that outlives the result.
unsafe fn path<'a>(path: *const c_char) -> &'a Path {
    // SAFETY: guaranteed by the caller.
    Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(path) }.to_bytes(),
    ))
}

/// Surveys a capture before its replays. The result lives as long as the process. Null and a message if the capture
/// cannot be read.
///
/// # Safety
/// The path is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_whatif_survey(
    capture: *const c_char,
    device: u64,
    message: &mut Message,
) -> *const Survey {
    // SAFETY: guaranteed by the caller.
    let capture = unsafe { path(capture) };
    match Survey::of(capture, DeviceOrdinal(device as u8)) {
        Ok(survey) => Box::into_raw(Box::new(survey)),
        Err(error) => {
            message.set(&error);
            core::ptr::null()
        }
    }
}

/// The streams of a device in the capture. Returns their number and writes the first `room`.
///
/// # Safety
/// `streams` has space for `room` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_whatif_streams(
    survey: &Survey,
    streams: *mut Pair,
    room: u64,
) -> u64 {
    let found = survey.streams.iter().take(room as usize);
    for (n, (stream, id)) in found.enumerate() {
        // SAFETY: `n` is below `room`.
        unsafe { streams.add(n).write([*stream, id.unwrap_or(u64::MAX)]) };
    }
    survey.streams.len() as u64
}

/// What to save of the replay.
///
/// # Safety
/// All that the request points to is valid.
unsafe fn save(request: &Request) -> Option<save::Wanted> {
    if request.save.is_null() {
        return None;
    }
    let facts = match request.fact_count {
        0 => &[],
        // SAFETY: guaranteed by the caller.
        count => unsafe { core::slice::from_raw_parts(request.facts, count as usize) },
    };
    // SAFETY: guaranteed by the caller.
    let text = |text| unsafe { CStr::from_ptr(text) };
    let text = |of: *const c_char| text(of).to_string_lossy().into_owned();
    Some(save::Wanted {
        // SAFETY: guaranteed by the caller.
        path: unsafe { path(request.save) }.to_owned(),
        card: request.card_bytes,
        facts: facts
            .iter()
            .map(|fact| (text(fact.key), text(fact.value)))
            .collect(),
    })
}

/// Replays. Returns 0, or −1 and a message.
///
/// # Safety
/// All that the request points to is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_whatif_replay(
    request: &Request,
    outcome: &mut Outcome,
    message: &mut Message,
) -> i64 {
    let streams = match request.stream_count {
        0 => &[],
        // SAFETY: guaranteed by the caller.
        count => unsafe { core::slice::from_raw_parts(request.streams, count as usize) },
    };
    let wanted = Wanted {
        // SAFETY: guaranteed by the caller.
        capture: unsafe { path(request.capture) },
        device: DeviceOrdinal(request.device as u8),
        // SAFETY: as above.
        survey: unsafe { &*request.survey },
        streams: streams
            .iter()
            .map(|&[there, here, id]| (there, (here, id)))
            .collect(),
        own_bytes: request.own_bytes,
        assumed: Assumed(request.assumed),
        most_reserved: request.most_reserved,
        set: request.set,
        progress: request.progress,
        // SAFETY: the caller's promise.
        save: unsafe { save(request) },
    };
    match replay::replay(&wanted) {
        Ok(found) => {
            *outcome = found;
            0
        }
        Err(error) => {
            message.set(&error);
            -1
        }
    }
}
