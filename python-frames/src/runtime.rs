//! The interpreter in this process, and what it holds about the calling thread.

use core::ffi::c_void;

use super::code::{self, CodeText};
use super::finalizing::Finalizing;
use super::frame::{Frame, ModuleObject};
use super::last_stack::{Lookup, Places, StackMemo};
use super::layout::{Layout, type_object};
use super::memory::{load, plausible};
use super::nn_module::{self, ModuleCalls};
use super::thread::{self, Thread};
use super::version::Version;
use super::walk::{self, Walked};

/// An interpreter whose frames can be read.
#[derive(Debug)]
pub struct Runtime {
    pub(crate) version: Version,
    pub(crate) layout: Layout,
    pub(crate) code_type: usize,
    pub(crate) evaluation: (u64, u64),
    pub(crate) thread_state: ThreadState,
    pub(crate) finalizing: Finalizing,
    /// For [`Runtime::look`]; None where it cannot be used.
    pub(crate) places: Option<Places>,
    /// The functions through which PyTorch modules are called.
    pub(crate) module_calls: ModuleCalls,
}

/// `PyGILState_GetThisThreadState`.
pub(crate) type ThreadState = unsafe extern "C" fn() -> *mut c_void;

impl Runtime {
    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// First address of the evaluation function and first address after it; zeros if unknown.
    pub fn evaluation(&self) -> (u64, u64) {
        self.evaluation
    }

    /// Writes the calling thread's frames to `out`, the newest first. None if the thread runs no
    /// Python, or if the interpreter is being torn down.
    #[inline]
    pub fn walk(&self, out: &mut [Frame]) -> Option<Walked> {
        self.with_thread(|thread| {
            // SAFETY: `with_thread` has just read the calling thread's own state. The layout is that of the
            // interpreter's version, and was checked.
            unsafe {
                walk::walk(
                    &self.layout,
                    self.code_type,
                    &self.module_calls,
                    thread,
                    out,
                )
            }
        })
    }

    /// Identifies the calling thread's stack with the memo of its last look. None where [`Runtime::walk`] returns
    /// None. `most`: the maximum number of frames of a stack, the same at each look; a deeper stack is
    /// [`Lookup::Unknown`]. `owner`: the owner of the noted ids; other owners do not get them.
    #[inline(always)]
    pub fn look(&self, memo: &mut StackMemo, most: usize, owner: usize) -> Option<Lookup> {
        let Some(places) = &self.places else {
            return Some(Lookup::Unknown);
        };
        self.with_thread(|thread| {
            // SAFETY: as in `walk`.
            unsafe { memo.look(places, &self.module_calls, thread, most, owner) }
        })
    }

    /// Passes the calling thread's state to `look`. None if the thread has no state, or if the interpreter is being
    /// torn down.
    #[inline(always)]
    fn with_thread<R>(&self, look: impl FnOnce(Thread) -> R) -> Option<R> {
        // SAFETY: it reads a word of the interpreter's static state and a thread-specific value, needs no GIL and may
        // be called at any time: before the interpreter is initialised, and after it is gone.
        let state = unsafe { (self.thread_state)() };
        if state.is_null() || self.is_finalizing() {
            return None;
        }
        // SAFETY: the calling thread's own state, which only this thread frees as long as the interpreter is not
        // finalizing.
        let thread =
            unsafe { thread::read(&self.layout, state as usize, || self.is_finalizing()) }?;
        Some(look(thread))
    }

    /// Whether the interpreter is being torn down, or has been. Needs no GIL and may be called at any time.
    #[inline(always)]
    pub fn is_finalizing(&self) -> bool {
        self.finalizing.get()
    }

    /// Address of the calling thread's newest frame; 0 if the thread runs no Python. While that frame
    /// waits for a call of native code to return, no other frame has this address.
    #[inline]
    pub fn newest(&self) -> usize {
        self.with_thread(|thread| thread.newest).unwrap_or(0)
    }

    /// The number of the calling thread's frames that are newer than `base`, a result of [`Runtime::newest`] whose
    /// frame still waits; all of them if it is 0.
    #[inline]
    pub fn newer_than(&self, base: usize) -> usize {
        self.with_thread(|thread| {
            // SAFETY: as in `walk`.
            unsafe { walk::newer_than(&self.layout, self.code_type, thread, base) }
        })
        .unwrap_or(0)
    }

    /// Reads the code object of a frame that [`Runtime::walk`] has just returned. None if the interpreter is being
    /// torn down.
    ///
    /// # Safety
    /// The frame is still on the calling thread's stack: no Python code has run since the walk.
    pub unsafe fn code<'a>(&self, frame: &Frame, scratch: &'a mut Vec<u8>) -> Option<CodeText<'a>> {
        // SAFETY: a code object lives as long as a frame that runs it; the walk checked its type.
        unsafe {
            code::read(&self.layout, frame.code as usize, scratch, || {
                self.is_finalizing()
            })
        }
    }

    /// If a frame's code is the function through which PyTorch calls modules, later walks include which module each
    /// frame of it calls. `text` is the result of [`Runtime::code`].
    pub fn note_module_call(&self, frame: &Frame, text: &CodeText<'_>) {
        if nn_module::is_module_call(self.version, text) {
            self.module_calls.add(frame.code as usize, frame.identity);
        }
    }

    /// The number of functions that [`Runtime::note_module_call`] has recognised. A walk before the last of them may
    /// lack the modules that its frames call.
    pub fn module_calls(&self) -> usize {
        self.module_calls.count()
    }

    /// The module object at this address.
    ///
    /// # Safety
    /// A live Python object is there.
    pub unsafe fn module_at(&self, address: usize) -> ModuleObject {
        if !plausible(address) {
            return ModuleObject::NONE;
        }
        ModuleObject {
            address: address as u64,
            // SAFETY: promised by the caller.
            kind: unsafe { load::<u64>(address, self.layout.object.kind) },
        }
    }

    /// Writes the name of a module's class to `out`, without its package, cut to 255 bytes; nothing if it cannot be
    /// read. False if the interpreter is being torn down.
    ///
    /// # Safety
    /// A frame that [`Runtime::walk`] has just returned calls the module, and is still on the calling thread's stack.
    pub unsafe fn class_name(&self, module: ModuleObject, out: &mut Vec<u8>) -> bool {
        out.clear();
        let kind = module.kind as usize;
        if !plausible(kind) || out.try_reserve(255).is_err() {
            return true;
        }
        // SAFETY: the frame holds the module, and the module its type. The name lives as long as the type, except for
        // names that are freed when the interpreter ends, which is checked before each byte.
        unsafe {
            let name: usize = load(kind, type_object::NAME);
            let length = if name < 0x1_0000 { 0 } else { 255 };
            for at in 0..length {
                let byte: u8 = load(name, at);
                if byte == 0 || self.is_finalizing() {
                    break;
                }
                out.push(byte);
            }
        }
        if let Some(dot) = out.iter().rposition(|byte| *byte == b'.') {
            out.drain(..=dot);
        }
        !self.is_finalizing()
    }
}
