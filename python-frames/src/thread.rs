//! The state of the calling thread (`PyThreadState`), read while another thread may finalize the interpreter.
//!
//! A thread can call CUDA without the GIL while another thread finalizes the interpreter and frees the thread's state.
//! The interpreter sets the finalizing word before it frees the first state, and keeps it set until the process ends or
//! a new interpreter is initialised. So data read from a state is used only if the word is not set after the read. The
//! frames and code objects of such a thread are not freed: docs/python-stacks.md, "When the interpreter ends".
//!
//! The end of a sub-interpreter frees no state of another thread: CPython ends the process if another thread has one
//! there (`Py_EndInterpreter: not the last thread`).

use super::layout::{Layout, Newest};
use super::memory::load;

/// The relevant part of a thread's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    /// Address of the newest frame; 0 without frames.
    pub(crate) newest: usize,
    /// The number of the thread's interpreter; 0 where it is not used.
    pub(crate) interpreter: u64,
}

/// Reads the state of the calling thread. None if the interpreter is finalizing.
///
/// # Safety
/// `state` is the calling thread's state in an interpreter with the layout `layout`. It was live when `is_finalizing`,
/// which queries the interpreter, last returned false.
#[inline(always)]
pub(crate) unsafe fn read(
    layout: &Layout,
    state: usize,
    is_finalizing: impl Fn() -> bool,
) -> Option<Thread> {
    // SAFETY: the state was live a few instructions ago, by the caller's promise. If the interpreter has been finalized
    // since then, the memory was returned to malloc, and the check below discards what was read.
    let (newest, interpreter) = unsafe {
        let newest = match layout.newest {
            Newest::Direct { frame } => load(state, frame),
            Newest::CFrame { cframe, .. } => load::<usize>(state, cframe),
        };
        let interpreter = layout
            .interpreter
            .map(|at| (load::<usize>(state, at.interpreter), at.number));
        (newest, interpreter)
    };
    if is_finalizing() {
        return None;
    }
    let c_frame = match layout.newest {
        Newest::CFrame { frame, .. } if newest != 0 => Some(frame),
        _ => None,
    };
    if c_frame.is_none() && interpreter.is_none() {
        return Some(Thread {
            newest,
            interpreter: 0,
        });
    }
    // SAFETY: both addresses were read from a live state. A `_PyCFrame` is on this thread's own stack or in its state;
    // the main interpreter is static, another one is freed like a state. The check below is for these, as above.
    let thread = unsafe {
        Thread {
            newest: c_frame.map_or(newest, |frame| load(newest, frame)),
            interpreter: interpreter.map_or(0, |(interpreter, number)| load(interpreter, number)),
        }
    };
    (!is_finalizing()).then_some(thread)
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::rows;

    /// A state of each layout whose newest frame is at 0x7000, in the interpreter with the number 9.
    struct State {
        words: [u64; 32],
        c_frame: [u64; 2],
        interpreter: Box<[u64; 1024]>,
        layout: Layout,
    }

    impl State {
        fn new(minor: u32) -> Box<Self> {
            let layout = rows::row((3, minor)).unwrap();
            let mut new = Box::new(Self {
                words: [0; 32],
                c_frame: [0; 2],
                interpreter: Box::new([0; 1024]),
                layout,
            });
            match layout.newest {
                Newest::Direct { frame } => new.words[frame / 8] = 0x7000,
                Newest::CFrame { cframe, frame } => {
                    new.c_frame[frame / 8] = 0x7000;
                    new.words[cframe / 8] = new.c_frame.as_ptr() as u64;
                }
            }
            if let Some(at) = layout.interpreter {
                new.interpreter[at.number / 8] = 9;
                new.words[at.interpreter / 8] = new.interpreter.as_ptr() as u64;
            }
            new
        }

        fn read(&self, is_finalizing: impl Fn() -> bool) -> Option<Thread> {
            // SAFETY: the words are laid out as the layout says.
            unsafe { read(&self.layout, self.words.as_ptr() as usize, is_finalizing) }
        }
    }

    #[test]
    fn a_live_state_gives_its_frame_and_interpreter() {
        for minor in 8..=14 {
            let thread = State::new(minor).read(|| false).unwrap();
            assert_eq!(thread.newest, 0x7000, "3.{minor}");
            assert_eq!(thread.interpreter, if minor < 12 { 0 } else { 9 });
        }
    }

    #[test]
    fn a_thread_without_frames_has_none() {
        for minor in 8..=14 {
            let mut state = State::new(minor);
            let (Newest::Direct { frame } | Newest::CFrame { cframe: frame, .. }) =
                state.layout.newest;
            state.words[frame / 8] = 0;
            assert_eq!(state.read(|| false).unwrap().newest, 0, "3.{minor}");
        }
    }

    /// The state is freed and its memory reused between any two queries: no address in it is followed.
    #[test]
    fn a_state_that_is_freed_while_it_is_read_is_not_used() {
        for minor in 8..=14 {
            for last_no in 0..2 {
                let mut state = State::new(minor);
                if last_no == 0 {
                    state.words = [0xdddd_dddd_dddd_dddd; 32];
                }
                let asked = Cell::new(0);
                let read = state.read(|| asked.replace(asked.get() + 1) >= last_no);
                let questions = asked.get();
                assert!((1..=2).contains(&questions), "3.{minor}");
                if questions > last_no {
                    assert_eq!(read, None, "3.{minor}, {last_no}");
                }
            }
        }
    }
}
