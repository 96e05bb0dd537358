//! The frames that run, of all threads, and the names of their variables.

use gpumem_python_frames::Locals;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::limits::Limits;
use crate::names::is_program;
use crate::object::Object;
use crate::python::Locked;

/// What a code object says.
pub(crate) struct Code {
    name: String,
    /// Without its folder.
    file: String,
    pub(crate) is_own: bool,
    /// The names of its variables, in the order of their places.
    pub(crate) variables: Vec<String>,
    /// The number of arguments that come first and may be passed by position.
    pub(crate) arguments: usize,
    /// The number of places after the variables for the evaluation.
    pub(crate) evaluation: usize,
}

/// Code objects that were read, by their address.
#[derive(Default)]
pub(crate) struct Codes(FxHashMap<Object, Code>);

impl Codes {
    /// A live code object.
    pub(crate) fn get(&mut self, locked: &Locked<'_>, code: Object) -> &Code {
        let known = self.0.entry(code);
        known.or_insert_with(|| Code::read(locked, code))
    }

    /// Where a live frame is: `main (train.py:31)`.
    pub(crate) fn place(&mut self, locked: &Locked<'_>, locals: &Locals) -> String {
        // SAFETY: a live code object, with the lock.
        let line = unsafe { (locked.python.PyCode_Addr2Line)(locals.code, locals.offset) };
        let Code { name, file, .. } = self.get(locked, locals.code);
        format!("{name} ({file}:{line})")
    }
}

impl Code {
    fn read(locked: &Locked<'_>, code: Object) -> Self {
        // SAFETY: a live code object, with the lock.
        let names = unsafe { locked.runtime.names_of(code) };
        let path = locked.path(names.file).unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        let mut variables = Vec::new();
        for tuple in names.variables {
            if tuple != 0 {
                variables.extend(locked.texts(tuple));
            }
        }
        Self {
            name: locked
                .text(names.name)
                .unwrap_or_default()
                .replace("<locals>.", ""),
            file: crate::names::clean(file.chars()),
            is_own: is_program(&path),
            variables,
            arguments: names.arguments,
            evaluation: names.evaluation,
        }
    }
}

/// A frame that runs.
pub(crate) struct Frame {
    /// The number of its thread.
    pub(crate) thread: usize,
    pub(crate) locals: Locals,
}

/// The frames that run: of one thread after the other, the newest first.
#[derive(Default)]
pub(crate) struct Frames {
    pub(crate) all: Vec<Frame>,
    /// The states of the threads.
    pub(crate) threads: Vec<usize>,
}

/// The maximum number of frames, and of threads.
const FRAMES: usize = 1 << 18;
const THREADS: usize = 1 << 16;

impl Frames {
    /// Lists the frames.
    pub(crate) fn list(locked: &Locked<'_>, limits: &Limits) -> Self {
        let python = &locked.python;
        let mut frames = Self::default();
        // SAFETY: with the lock. A thread that starts puts its state first, and one that ends needs the lock.
        unsafe {
            let mut state =
                (python.PyInterpreterState_ThreadHead)((python.PyInterpreterState_Main)());
            while state != 0 && frames.threads.len() < THREADS {
                let thread = frames.threads.len();
                locked.runtime.frames_of(state, |locals| {
                    frames.all.push(Frame { thread, locals });
                    let count = frames.all.len();
                    count < FRAMES && !(count.is_multiple_of(4096) && limits.is_over())
                });
                frames.threads.push(state);
                state = (python.PyThreadState_Next)(state);
            }
        }
        frames
    }

    /// The objects that have these frames.
    pub(crate) fn objects(&self) -> FxHashSet<Object> {
        let objects = self.all.iter().map(|frame| frame.locals.object);
        objects.filter(|object| *object != 0).collect()
    }

    /// Whether the frame `newer` has returned once the frame `older` goes on.
    pub(crate) fn has_returned(&self, newer: usize, older: usize) -> bool {
        let thread = |frame: usize| self.all.get(frame).map(|frame| frame.thread);
        newer < older && thread(newer) == thread(older)
    }
}
