//! The system's unwinder, called directly, without gpumem's own code or a crate in between.

use core::ffi::{c_int, c_void};

use gpumem_unwind::modules::Span;
use gpumem_unwind::{FRAMES, Registers};

type Trace = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

unsafe extern "C" {
    fn _Unwind_Backtrace(trace: Trace, data: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> u64;
    fn _Unwind_GetCFA(context: *mut c_void) -> u64;
    fn _Unwind_GetGR(context: *mut c_void, register: c_int) -> u64;
}

/// `_URC_NO_REASON` and `_URC_NORMAL_STOP` of unwind.h.
const GO_ON: c_int = 0;
const STOP: c_int = 4;
/// DWARF's number of the frame pointer.
const BP: c_int = 6;

/// One stack, the newest frame first. All zeros are an empty stack.
pub(crate) struct Reference {
    frames: [Registers; FRAMES],
    len: usize,
    /// Whether there are older frames.
    pub(crate) truncated: bool,
    /// Whether the first frame to record was found.
    begun: bool,
    from: Registers,
    own: Span,
}

impl Reference {
    /// Takes the calling thread's stack from the frame `from` on, without frames in `own`.
    #[inline(never)]
    pub(crate) fn take(&mut self, from: Registers, own: Span) {
        (self.len, self.truncated, self.begun) = (0, false, false);
        (self.from, self.own) = (from, own);
        // SAFETY: the function gets this reference, which has no other user meanwhile.
        unsafe { _Unwind_Backtrace(visit, (&raw mut *self).cast()) };
    }

    pub(crate) fn frames(&self) -> &[Registers] {
        self.frames.get(..self.len).unwrap_or_default()
    }
}

unsafe extern "C" fn visit(context: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: the unwinder's own context, and the reference from `take`.
    let (reference, frame) = unsafe {
        let frame = Registers {
            pc: _Unwind_GetIP(context),
            sp: _Unwind_GetCFA(context),
            bp: _Unwind_GetGR(context, BP),
        };
        (&mut *data.cast::<Reference>(), frame)
    };
    if frame.pc == 0 {
        return STOP;
    }
    reference.begun |= frame.sp == reference.from.sp;
    if !reference.begun || reference.own.contains(frame.pc - 1) {
        return GO_ON;
    }
    match reference.frames.get_mut(reference.len) {
        Some(place) => {
            *place = frame;
            reference.len += 1;
            GO_ON
        }
        None => {
            reference.truncated = true;
            STOP
        }
    }
}
