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

/// What the structures say of one frame.
struct Seen {
    /// The code object's address, as the frame has it.
    code: usize,
    /// Offset of the instruction from the start of the code, in bytes.
    offset: i32,
    entered_from_c: bool,
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
    let at = layout.frame;
    // SAFETY: the thread's state and its frames are live and, as the thread is here and not in the
    // interpreter, unchanging; `read` is given such frames only, and the address of a live code
    // object or nothing readable at all is what `follow` checks for.
    unsafe {
        let newest = newest(layout, thread);
        let offset = |frame: usize, code: usize| match at.instruction {
            Instruction::Index { at, unit } => load::<i32>(frame, at).wrapping_mul(unit),
            Instruction::Pointer { at, code_start } => {
                load::<usize>(frame, at).wrapping_sub(code.wrapping_add(code_start)) as i32
            }
        };
        // One loop for each way, so that none decides anything anew at each frame.
        match at.entry {
            Entry::Every => follow(layout, code_type, newest, out, |frame| {
                let code = load(frame, at.code);
                Some(Seen {
                    code,
                    offset: offset(frame, code),
                    entered_from_c: true,
                })
            }),
            Entry::Flag { at: flag } => follow(layout, code_type, newest, out, |frame| {
                let code = load(frame, at.code);
                let entered_from_c = load::<u8>(frame, flag) != 0;
                Some(Seen {
                    code,
                    offset: offset(frame, code),
                    entered_from_c,
                })
            }),
            Entry::Shim { owner } => follow(layout, code_type, newest, out, |frame| {
                if load::<u8>(frame, owner) >= SHIM_OWNER {
                    return None;
                }
                let code = load::<usize>(frame, at.code) & !TAG;
                // The next older frame tells whether C code entered this one.
                Some(Seen {
                    code,
                    offset: offset(frame, code),
                    entered_from_c: false,
                })
            }),
        }
    }
}

/// Address of the newest frame; 0 if there is none.
///
/// # Safety
/// `thread` is as [`walk`] wants it.
#[inline]
pub(super) unsafe fn newest(layout: &Layout, thread: usize) -> usize {
    // SAFETY: promised by the caller.
    unsafe {
        match layout.newest {
            Newest::Direct { frame } => load(thread, frame),
            Newest::CFrame { cframe, frame } => match load(thread, cframe) {
                0 => 0,
                cframe => load(cframe, frame),
            },
        }
    }
}

/// How many frames are newer than the one at `base`; all if none is there.
///
/// # Safety
/// As [`walk`].
pub(super) unsafe fn newer_than(
    layout: &Layout,
    code_type: usize,
    thread: usize,
    base: usize,
) -> usize {
    let at = layout.frame;
    // SAFETY: promised by the caller; the frames are read as `walk` reads them.
    unsafe {
        let mut frame = newest(layout, thread);
        let mut count = 0;
        while frame != 0 && frame != base && plausible(frame) {
            let is_shim = match at.entry {
                Entry::Shim { owner } => load::<u8>(frame, owner) >= SHIM_OWNER,
                Entry::Every | Entry::Flag { .. } => false,
            };
            if !is_shim {
                let code = load::<usize>(frame, at.code) & !TAG;
                if !plausible(code) || load::<usize>(code, layout.object.kind) != code_type {
                    break;
                }
                count += 1;
            }
            frame = load(frame, at.previous);
        }
        count
    }
}

/// Bits of a reference that are no part of the address (3.14's `_PyStackRef`).
const TAG: usize = 3;

/// Goes from `frame` to ever older ones; `read` says what a frame holds, or that it is a shim.
///
/// # Safety
/// As [`walk`]; `frame` is 0 or a live frame.
#[inline(always)]
unsafe fn follow(
    layout: &Layout,
    code_type: usize,
    mut frame: usize,
    out: &mut [Frame],
    read: impl Fn(usize) -> Option<Seen>,
) -> Walked {
    let previous = layout.frame.previous;
    let mut len = 0;
    // The word of the frame written last.
    let mut newer: Option<&mut u32> = None;
    let mut places = out.iter_mut();
    while frame != 0 {
        if !plausible(frame) {
            return Walked {
                len,
                truncated: true,
            };
        }
        if let Some(seen) = read(frame) {
            let code = seen.code;
            // SAFETY: `frame` is a live frame that runs code: what it names there is its code object.
            let is_code =
                plausible(code) && unsafe { load::<usize>(code, layout.object.kind) } == code_type;
            let place = if is_code { places.next() } else { None };
            let Some(place) = place else {
                return Walked {
                    len,
                    truncated: true,
                };
            };
            let position = PyFrame {
                code: CodeId(0),
                offset: seen.offset,
                entered_from_c: seen.entered_from_c,
            };
            *place = Frame {
                code: code as u64,
                // SAFETY: a live code object.
                identity: unsafe { code::identity(layout, code) },
                word: position.word(),
            };
            newer = Some(&mut place.word);
            len += 1;
        } else if let Some(word) = newer.take() {
            *word |= ENTERED_FROM_C;
        }
        // SAFETY: a live frame's next older one is live, or 0.
        frame = unsafe { load(frame, previous) };
    }
    Walked {
        len,
        truncated: false,
    }
}
