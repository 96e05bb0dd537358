//! From the newest frame of a thread to the oldest.

use super::code;
use super::frame::{Frame, ModuleObject, Position};
use super::layout::{
    Entry, FrameLayout, GENERATOR_OWNER, Instruction, Layout, SHIM_OWNER, TAG_MASK,
};
use super::memory::{load, plausible};
use super::nn_module::ModuleCalls;
use super::thread::Thread;

/// The result of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// The number of frames.
    pub len: usize,
    /// Whether older frames were cut off: there was no room, or something was not a frame.
    pub truncated: bool,
}

/// The contents of one frame.
pub(crate) struct Seen {
    /// The code object's address, as the frame has it.
    pub(crate) code: usize,
    /// Offset of the instruction from the start of the code, in bytes.
    pub(crate) offset: i32,
    entered_from_c: bool,
    pub(crate) owner: u8,
}

/// Writes the Python frames of the calling thread to `out`, the newest first.
///
/// # Safety
/// `thread` was read from the state of the calling thread since it last ran Python code, in an interpreter with the
/// layout `layout`, and `code_type` is the address of its `PyCode_Type`.
pub(crate) unsafe fn walk(
    layout: &Layout,
    code_type: usize,
    calls: &ModuleCalls,
    thread: Thread,
    out: &mut [Frame],
) -> Walked {
    let (newest, number) = (thread.newest, thread.interpreter);
    // SAFETY: the frames wait for the native code that this thread runs. So they do not change, and are not freed, even
    // if the interpreter ends meanwhile (docs/python-stacks.md). `read` is given such frames only.
    unsafe {
        let at = layout.frame;
        // One loop for each kind, so that no loop repeats the decision at each frame.
        match at.entry {
            Entry::Every => follow(layout, code_type, calls, number, newest, out, |frame| {
                read(at, Entry::Every, frame)
            }),
            Entry::Flag { at: flag, owner } => {
                follow(layout, code_type, calls, number, newest, out, |frame| {
                    read(at, Entry::Flag { at: flag, owner }, frame)
                })
            }
            Entry::Shim { owner } => {
                follow(layout, code_type, calls, number, newest, out, |frame| {
                    read(at, Entry::Shim { owner }, frame)
                })
            }
        }
    }
}

/// The contents of a frame; None for a shim. `entry` is that of `at`.
///
/// # Safety
/// `frame` is a live frame of the calling thread with the layout `at`.
#[inline(always)]
pub(crate) unsafe fn read(at: FrameLayout, entry: Entry, frame: usize) -> Option<Seen> {
    // SAFETY: promised by the caller.
    unsafe {
        let owner = match entry {
            Entry::Every => 0,
            Entry::Flag { owner, .. } | Entry::Shim { owner } => load::<u8>(frame, owner),
        };
        let (code, entered_from_c) = match entry {
            Entry::Every => (load(frame, at.code), true),
            Entry::Flag { at: flag, .. } => (load(frame, at.code), load::<u8>(frame, flag) != 0),
            Entry::Shim { .. } if owner >= SHIM_OWNER => return None,
            // The next older frame determines whether C code entered this one.
            Entry::Shim { .. } => (load::<usize>(frame, at.code) & TAG_MASK, false),
        };
        let offset = match at.instruction {
            Instruction::Index { at, unit } => load::<i32>(frame, at).wrapping_mul(unit),
            Instruction::Pointer { at, code_start } => {
                load::<usize>(frame, at).wrapping_sub(code.wrapping_add(code_start)) as i32
            }
        };
        Some(Seen {
            code,
            offset,
            entered_from_c,
            owner,
        })
    }
}

/// Whether the object that a frame has as its code is a code object.
///
/// # Safety
/// `code` is the code pointer of a live frame, without the tag.
#[inline(always)]
pub(crate) unsafe fn is_code(layout: &Layout, code_type: usize, code: usize) -> bool {
    // SAFETY: promised by the caller: where a frame has an address, there is an object.
    plausible(code) && unsafe { load::<usize>(code, layout.object.kind) } == code_type
}

/// Whether a frame has not reached the function's own instructions yet, like `_PyFrame_IsIncomplete`. The frame is at
/// `offset` of `code`, whose number is `number`, and belongs to `owner`: a generator's frame is complete from the
/// start.
///
/// Code with a number is always complete. In versions with numbers (3.12), garbage collection, and with it other code,
/// runs only at a function's own instructions, and the code of the interpreter's internal frames has no number.
///
/// # Safety
/// `code` is that of a live frame, and [`is_code`].
#[inline(always)]
pub(crate) unsafe fn is_incomplete(
    layout: &Layout,
    code: usize,
    offset: i32,
    owner: u8,
    number: u32,
) -> bool {
    if number != 0 {
        return false;
    }
    layout.code.first_traceable.is_some_and(|at| {
        // SAFETY: promised by the caller.
        let first: i32 = unsafe { load(code, at) };
        offset < first.wrapping_mul(2) && owner != GENERATOR_OWNER
    })
}

/// The number of frames that are newer than the one at `base`; all if no frame is there.
///
/// # Safety
/// As [`walk`].
pub(crate) unsafe fn newer_than(
    layout: &Layout,
    code_type: usize,
    thread: Thread,
    base: usize,
) -> usize {
    // SAFETY: promised by the caller; the frames are read as `walk` reads them.
    unsafe {
        let mut frame = thread.newest;
        let mut count = 0;
        while frame != 0 && frame != base && plausible(frame) {
            if let Some(seen) = read(layout.frame, layout.frame.entry, frame) {
                if !is_code(layout, code_type, seen.code) {
                    break;
                }
                let number = code::number(layout, seen.code);
                count += usize::from(!is_incomplete(
                    layout,
                    seen.code,
                    seen.offset,
                    seen.owner,
                    number,
                ));
            }
            frame = load(frame, layout.frame.previous);
        }
        count
    }
}

/// Walks from `frame` to older ones; `read` returns the contents of a frame, or that it is a shim.
///
/// # Safety
/// As [`walk`]; `frame` is 0 or a live frame.
#[inline(always)]
unsafe fn follow(
    layout: &Layout,
    code_type: usize,
    calls: &ModuleCalls,
    interpreter: u64,
    mut frame: usize,
    out: &mut [Frame],
    read: impl Fn(usize) -> Option<Seen>,
) -> Walked {
    let previous = layout.frame.previous;
    let mut len = 0;
    // The position of the frame written last.
    let mut newer: Option<&mut Position> = None;
    let mut places = out.iter_mut();
    while frame != 0 {
        if !plausible(frame) {
            return Walked {
                len,
                truncated: true,
            };
        }
        if let Some(seen) = read(frame) {
            // SAFETY: `frame` is a live frame.
            if !unsafe { is_code(layout, code_type, seen.code) } {
                return Walked {
                    len,
                    truncated: true,
                };
            }
            // SAFETY: a live frame's code object.
            let number = unsafe { code::number(layout, seen.code) };
            // SAFETY: a live frame, with a code object.
            if !unsafe { is_incomplete(layout, seen.code, seen.offset, seen.owner, number) } {
                let Some(place) = places.next() else {
                    return Walked {
                        len,
                        truncated: true,
                    };
                };
                // SAFETY: a live code object.
                let identity = unsafe { code::identity(layout, seen.code, number, interpreter) };
                *place = Frame {
                    code: seen.code as u64,
                    identity,
                    position: Position::new(seen.offset, seen.entered_from_c),
                    module: match calls.has(seen.code, identity) {
                        // SAFETY: a live frame of this code.
                        true => unsafe { ModuleObject::called_at(layout, frame) },
                        false => ModuleObject::NONE,
                    },
                };
                newer = Some(&mut place.position);
                len += 1;
            }
        } else if let Some(position) = newer.take() {
            position.enter_from_c();
        }
        // SAFETY: a live frame's next older one is live, or 0.
        frame = unsafe { load(frame, previous) };
    }
    Walked {
        len,
        truncated: false,
    }
}
