//! What python/gpumem/_whatif calls by ctypes.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use gpumem_capture::DeviceOrdinal;

use crate::assumed::Assumed;
use crate::replay;
use crate::save;
use crate::survey::Survey;
use crate::wanted::{Outcome, Wanted};

/// A stream: its handle in the recorded process, and PyTorch's number of it, `u64::MAX` if that is not known.
pub type Pair = [u64; 2];

/// A stream: its handles in the recorded process and in this one, and PyTorch's number of it in this one.
pub type Same = [u64; 3];

/// What is wanted of a replay.
#[repr(C)]
pub struct Request {
    /// The capture's path.
    pub capture: *const c_char,
    /// The recorded device.
    pub device: u64,
    /// Of this capture and device.
    pub survey: *const Survey,
    /// The streams that the capture names.
    pub streams: *const Same,
    /// How many.
    pub stream_count: u64,
    /// What this process has on the card beside the allocator's memory.
    pub own_bytes: u64,
    /// Gives PyTorch settings at run time; 0 if that could be done.
    pub set: Option<extern "C" fn(*const c_char) -> i64>,
    /// Is told of how much has been read, of 1; null: nobody.
    pub progress: Option<extern "C" fn(f64)>,
    /// Where the replay is written as a capture: a path that does not exist; null: nowhere.
    pub save: *const c_char,
    /// The card's bytes, for that capture.
    pub card_bytes: u64,
    /// What it says of the replay: facts of the process.
    pub facts: *const Fact,
    /// How many.
    pub fact_count: u64,
    /// What is taken for what the capture does not say: bits of `Assumed`.
    pub assumed: u64,
    /// The replay ends once the allocator holds more than so many bytes; 0: it does not.
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

/// Room for a message.
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
/// It is a NUL-terminated path that outlives the result.
unsafe fn path<'a>(path: *const c_char) -> &'a Path {
    // SAFETY: the caller's promise.
    Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(path) }.to_bytes(),
    ))
}

/// What has to be known of a capture before its replays, for as long as the process lasts; null and a message if the
/// capture cannot be read.
///
/// # Safety
/// The path is a NUL-terminated one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_whatif_survey(
    capture: *const c_char,
    device: u64,
    message: &mut Message,
) -> *const Survey {
    // SAFETY: the caller's promise.
    let capture = unsafe { path(capture) };
    match Survey::of(capture, DeviceOrdinal(device as u8)) {
        Ok(survey) => Box::into_raw(Box::new(survey)),
        Err(error) => {
            message.set(&error);
            core::ptr::null()
        }
    }
}

/// Streams that a capture names of a device. Returns how many there are, of which the first `room` are given.
///
/// # Safety
/// `streams` has that room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_whatif_streams(
    survey: &Survey,
    streams: *mut Pair,
    room: u64,
) -> u64 {
    let found = survey.streams.iter().take(room as usize);
    for (n, (stream, id)) in found.enumerate() {
        // SAFETY: there is room.
        unsafe { streams.add(n).write([*stream, id.unwrap_or(u64::MAX)]) };
    }
    survey.streams.len() as u64
}

/// What of the replay is to be saved.
///
/// # Safety
/// All that the request points to is valid.
unsafe fn save(request: &Request) -> Option<save::Wanted> {
    if request.save.is_null() {
        return None;
    }
    let facts = match request.fact_count {
        0 => &[],
        // SAFETY: the caller's promise.
        count => unsafe { core::slice::from_raw_parts(request.facts, count as usize) },
    };
    // SAFETY: the caller's promise.
    let text = |text| unsafe { CStr::from_ptr(text) };
    let text = |of: *const c_char| text(of).to_string_lossy().into_owned();
    Some(save::Wanted {
        // SAFETY: the caller's promise.
        path: unsafe { path(request.save) }.to_owned(),
        card: request.card_bytes,
        facts: facts
            .iter()
            .map(|fact| (text(fact.key), text(fact.value)))
            .collect(),
    })
}

/// Replays. 0, or −1 and a message.
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
        // SAFETY: the caller's promise.
        count => unsafe { core::slice::from_raw_parts(request.streams, count as usize) },
    };
    let wanted = Wanted {
        // SAFETY: the caller's promise.
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
