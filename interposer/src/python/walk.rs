//! From the newest frame of a thread to the oldest.

use gpumem_capture::{CodeId, PyFrame};

use super::code;
use super::layout::{Entry, Instruction, Layout, Newest, SHIM_OWNER};
use super::memory::{load, plausible};

/// One frame, as the walk finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Address of the code object.
    pub code: u64,
    /// Which of the code objects that have lived at this address.
    pub identity: u64,
    /// Where in it, and whether C code entered it: the second word of a frame in
    /// [`gpumem_capture::DefKind::PY_STACK`].
    pub word: u32,
}

/// Bit of [`Frame::word`] that says that C code entered the frame.
const ENTERED_FROM_C: u32 = 1 << 31;

/// What a walk wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// How many frames.
    pub len: usize,
    /// Whether older frames were cut off: there was no room, or something was not a frame.
    pub truncated: bool,
}

/// Writes the Python frames of the thread whose state is `thread` to `out`, the newest first.
///
/// # Safety
/// `thread` is the live state of the calling thread in an interpreter laid out as `layout` says, and
/// `code_type` is the address of its `PyCode_Type`.
pub(super) unsafe fn walk(
    layout: &Layout,
    code_type: usize,
    thread: usize,
    out: &mut [Frame],
) -> Walked {
    let mut walked = Walked::default();
    // SAFETY: the thread's state and its frames are live and, as the thread is here and not in the
    // interpreter, unchanging.
    let mut frame: usize = unsafe {
        match layout.newest {
            Newest::Direct { frame } => load(thread, frame),
            Newest::CFrame { cframe, frame } => match load(thread, cframe) {
                0 => 0,
                cframe => load(cframe, frame),
            },
        }
    };
    let at = &layout.frame;
    while frame != 0 {
        if !plausible(frame) {
            walked.truncated = true;
            break;
        }
        // SAFETY: `frame` is a live frame: the newest one, or the one before a live one.
        unsafe {
            if let Entry::Shim { owner } = at.entry
                && load::<u8>(frame, owner) >= SHIM_OWNER
            {
                let newer = walked.len.checked_sub(1).and_then(|last| out.get_mut(last));
                if let Some(newer) = newer {
                    newer.word |= ENTERED_FROM_C;
                }
                frame = load(frame, at.previous);
                continue;
            }
            let code = load::<usize>(frame, at.code) & !3;
            if !plausible(code) || load::<usize>(code, layout.object.kind) != code_type {
                walked.truncated = true;
                break;
            }
            let Some(slot) = out.get_mut(walked.len) else {
                walked.truncated = true;
                break;
            };
            let offset = match at.instruction {
                Instruction::Index { at, unit } => load::<i32>(frame, at).wrapping_mul(unit),
                Instruction::Pointer { at, code_start } => {
                    (load::<usize>(frame, at).wrapping_sub(code + code_start)) as i32
                }
            };
            let entered_from_c = match at.entry {
                Entry::Every => true,
                Entry::Flag { at } => load::<u8>(frame, at) != 0,
                Entry::Shim { .. } => false, // the next older frame tells
            };
            *slot = Frame {
                code: code as u64,
                identity: code::identity(layout, code),
                word: PyFrame {
                    code: CodeId(0),
                    offset,
                    entered_from_c,
                }
                .word(),
            };
            walked.len += 1;
            frame = load(frame, at.previous);
        }
    }
    walked
}
