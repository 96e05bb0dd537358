//! The local variables of frames, for code that holds the GIL: of all threads, and of frames that have ended and are
//! kept by an exception or a generator. Nothing here calls the interpreter, and no code of the program runs.

use super::layout::{GENERATOR_OWNER, TAG_MASK};
use super::memory::{load, plausible};
use super::runtime::Runtime;
use super::version::Version;
use super::{code, thread, walk};

/// A frame and where its variables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locals {
    /// Address of the code object.
    pub code: usize,
    /// Offset of the instruction from the start of the code, in bytes.
    pub offset: i32,
    /// Address of the object that has the frame: the frame object to 3.10; from 3.11 on the generator, or 0.
    pub object: usize,
    /// Addresses of the global namespace, and of the one of variables without a place, which the bodies of classes and
    /// modules have; 0: none.
    pub namespaces: [usize; 2],
    /// Address of the first variable: arguments and other locals, then cells, then what closures refer to, then what the
    /// evaluation works with.
    first: usize,
}

/// What a variable refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Address of the object.
    pub object: usize,
    /// Whether the object's count of references includes it: not so for a borrowed reference, from 3.14 on.
    pub is_counted: bool,
}

impl Locals {
    /// The object in the variable with this number; None if it has no value yet.
    ///
    /// # Safety
    /// The frame lives, the GIL is held, and the frame has that many variables and places for its evaluation.
    pub unsafe fn get(&self, number: usize) -> Option<Value> {
        // SAFETY: promised by the caller.
        let value = unsafe { load::<usize>(self.first, number * 8) };
        // Both bits: an integer without an object.
        let object = value & TAG_MASK;
        (value & !TAG_MASK != !TAG_MASK && plausible(object)).then_some(Value {
            object,
            is_counted: object == value,
        })
    }
}

/// What a code object says of its variables: addresses of live strings and tuples of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Its file.
    pub file: usize,
    /// Its name, qualified from 3.11 on.
    pub name: usize,
    /// The names of its variables in the order of their places: one tuple after the other, up to a 0.
    pub variables: [usize; 3],
    /// The number of arguments that may be passed by position: the first variables.
    pub arguments: usize,
    /// The number of places after the variables for the evaluation.
    pub evaluation: usize,
}

/// Where a version has what belongs to variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offsets {
    /// In a code object: tuples of names, the number of arguments, and the size of the evaluation's stack.
    variables: &'static [usize],
    arguments: usize,
    evaluation: usize,
    /// In a thread's state: the pointer to the newest handled exception.
    handled: usize,
    /// There: the exception, and the pointer to the next one.
    exception: usize,
    next: usize,
    /// In a frame: the global namespace, and that of the frame.
    namespaces: [usize; 2],
    /// The pointer to the frame in a generator up to 3.10, the frame itself since, and whether it has ended.
    generator: usize,
    has_ended: Option<usize>,
}

const TO_310: Offsets = Offsets {
    // co_varnames, co_cellvars, co_freevars
    variables: &[72, 88, 80],
    arguments: 16,
    evaluation: 32,
    handled: 144,
    exception: 8,
    next: 24,
    namespaces: [48, 56],
    generator: 16,
    has_ended: None,
};
const PY_311: Offsets = Offsets {
    // co_localsplusnames
    variables: &[96],
    arguments: 56,
    evaluation: 68,
    handled: 120,
    exception: 0,
    next: 8,
    namespaces: [8, 24],
    generator: 80,
    has_ended: Some(75),
};
const PY_312: Offsets = Offsets {
    arguments: 52,
    evaluation: 64,
    handled: 104,
    namespaces: [24, 40],
    generator: 72,
    has_ended: Some(67),
    ..PY_311
};
const FROM_313: Offsets = Offsets {
    handled: 120,
    ..PY_312
};

impl Offsets {
    fn of(version: Version) -> Self {
        match version.minor() {
            (3, ..=10) => TO_310,
            (3, 11) => PY_311,
            (3, 12) => PY_312,
            _ => FROM_313,
        }
    }
}

/// The offset of the frame in a frame object, from 3.11 on; before, the object is the frame.
const FRAME_OF_OBJECT: usize = 24;
/// The maximum number of exceptions that a thread handles at once.
const HANDLED: usize = 10_000;

impl Runtime {
    /// Passes the frames of a thread to `each`, the newest first, until it returns false.
    ///
    /// # Safety
    /// The GIL is held; `state` is the address of a thread's state in this interpreter.
    pub unsafe fn frames_of(&self, state: usize, mut each: impl FnMut(Locals) -> bool) {
        // SAFETY: with the GIL held no thread changes its frames, or ends.
        unsafe {
            let Some(thread) = thread::read(&self.layout, state, || false) else {
                return;
            };
            let mut frame = thread.newest;
            while plausible(frame) {
                if let Some(locals) = self.locals(frame)
                    && !each(locals)
                {
                    return;
                }
                frame = load(frame, self.layout.frame.previous);
            }
        }
    }

    /// Passes the exceptions that a thread is handling to `each`, the newest first: addresses of objects, which may be
    /// `None`. One that an older handler of the same frame has is left out from 3.11 on.
    ///
    /// # Safety
    /// As for [`Runtime::frames_of`].
    pub unsafe fn handled_by(&self, state: usize, mut each: impl FnMut(usize)) {
        let at = Offsets::of(self.version);
        // SAFETY: as above; the list ends in the thread's state, and its other members are in generators that run.
        unsafe {
            let mut handled: usize = load(state, at.handled);
            for _ in 0..HANDLED {
                if !plausible(handled) {
                    return;
                }
                let exception: usize = load(handled, at.exception);
                if plausible(exception) {
                    each(exception);
                }
                handled = load(handled, at.next);
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

    /// The variables of a generator, a coroutine or an asynchronous generator; None if it has ended.
    ///
    /// # Safety
    /// The GIL is held; `object` is a live object of one of these types.
    pub unsafe fn locals_of_generator(&self, object: usize) -> Option<Locals> {
        let at = Offsets::of(self.version);
        // SAFETY: promised by the caller. One that has not ended has a frame.
        unsafe {
            let frame = match at.has_ended {
                Some(has_ended) if load::<i8>(object, has_ended) > 0 => return None,
                Some(_) => object + at.generator,
                None => load(object, at.generator),
            };
            plausible(frame).then(|| self.locals(frame)).flatten()
        }
    }

    /// The names in a code object.
    ///
    /// # Safety
    /// The GIL is held; `code` is a live code object.
    pub unsafe fn names_of(&self, code: usize) -> Names {
        let at = Offsets::of(self.version);
        let name = self.layout.code.qualified_name;
        let mut variables = [0; 3];
        // SAFETY: promised by the caller.
        unsafe {
            for (tuple, at) in variables.iter_mut().zip(at.variables) {
                *tuple = load(code, *at);
            }
            Names {
                file: load(code, self.layout.code.file),
                name: load(code, name.unwrap_or(self.layout.code.name)),
                variables,
                arguments: load::<u32>(code, at.arguments) as usize,
                evaluation: load::<u32>(code, at.evaluation) as usize,
            }
        }
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
            let of = Offsets::of(self.version);
            (!is_incomplete).then_some(Locals {
                code: seen.code,
                offset: seen.offset,
                object: match of.has_ended {
                    None => frame,
                    Some(_) if seen.owner == GENERATOR_OWNER => frame - of.generator,
                    Some(_) => 0,
                },
                namespaces: of.namespaces.map(|at| load(frame, at)),
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
            object: 0,
            namespaces: [0; 2],
            first: values.as_ptr() as usize,
        };
        // SAFETY: the frame has these variables.
        let got = [0, 1, 2, 3].map(|number| unsafe { locals.get(number) });
        let object = |is_counted| {
            Some(Value {
                object: 0x7f00_0000_1000,
                is_counted,
            })
        };
        assert_eq!(got, [object(true), None, object(false), None]);
    }
}
