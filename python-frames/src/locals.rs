//! The local variables of frames, for code that holds the GIL: of all threads, and of frames that have ended and are
//! kept by an exception or a generator.

use super::layout::TAG_MASK;
use super::memory::{load, plausible};
use super::runtime::Runtime;
use super::{code, thread, walk};

/// A frame and where its variables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locals {
    /// Address of the code object.
    pub code: usize,
    /// Offset of the instruction from the start of the code, in bytes.
    pub offset: i32,
    /// Address of the first variable: arguments and other locals, then cells, then what closures refer to, then what the
    /// evaluation works with.
    first: usize,
}

impl Locals {
    /// The object in the variable with this number; None if it has no value yet.
    ///
    /// # Safety
    /// The frame lives, the GIL is held, and the frame has that many variables and places for its evaluation.
    pub unsafe fn get(&self, number: usize) -> Option<usize> {
        // SAFETY: promised by the caller.
        let value = unsafe { load::<usize>(self.first, number * 8) };
        // Both bits: an integer without an object.
        let object = value & TAG_MASK;
        (value & !TAG_MASK != !TAG_MASK && plausible(object)).then_some(object)
    }
}

/// The offset of the frame in a frame object, from 3.11 on; before, the object is the frame.
const FRAME_OF_OBJECT: usize = 24;

impl Runtime {
    /// Passes the frames of a thread to `each`, the newest first.
    ///
    /// # Safety
    /// The GIL is held; `state` is the address of a thread's state in this interpreter.
    pub unsafe fn frames_of(&self, state: usize, mut each: impl FnMut(Locals)) {
        // SAFETY: with the GIL held no thread changes its frames, or ends.
        unsafe {
            let Some(thread) = thread::read(&self.layout, state, || false) else {
                return;
            };
            let mut frame = thread.newest;
            while plausible(frame) {
                if let Some(locals) = self.locals(frame) {
                    each(locals);
                }
                frame = load(frame, self.layout.frame.previous);
            }
        }
    }

    /// The variables of a frame object.
    ///
    /// # Safety
    /// The GIL is held; `object` is a live frame object.
    pub unsafe fn locals_of(&self, object: usize) -> Option<Locals> {
        let frame = match self.version.minor() {
            (3, ..=10) => object,
            // SAFETY: promised by the caller.
            _ => unsafe { load::<usize>(object, FRAME_OF_OBJECT) },
        };
        if !plausible(frame) {
            return None;
        }
        // SAFETY: a frame object refers to its frame as long as it lives.
        unsafe { self.locals(frame) }
    }

    /// None for a frame without Python code.
    ///
    /// # Safety
    /// A live frame; the GIL is held.
    unsafe fn locals(&self, frame: usize) -> Option<Locals> {
        let at = self.layout.frame;
        // SAFETY: promised by the caller.
        unsafe {
            let seen = walk::read(at, at.entry, frame)?;
            if !walk::is_code(&self.layout, self.code_type, seen.code) {
                return None;
            }
            let number = code::number(&self.layout, seen.code);
            let is_incomplete =
                walk::is_incomplete(&self.layout, seen.code, seen.offset, seen.owner, number);
            (!is_incomplete).then_some(Locals {
                code: seen.code,
                offset: seen.offset,
                first: frame + at.first_local,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_an_object_or_nothing() {
        let values = [
            0x7f00_0000_1000usize,
            0,
            0x7f00_0000_1001,
            0x0000_0000_0001_0003,
        ];
        let locals = Locals {
            code: 0,
            offset: 0,
            first: values.as_ptr() as usize,
        };
        // SAFETY: the frame has these variables.
        let got = [0, 1, 2, 3].map(|number| unsafe { locals.get(number) });
        let object = Some(0x7f00_0000_1000);
        assert_eq!(got, [object, None, object, None]);
    }
}
