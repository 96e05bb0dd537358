//! Which of a process's failures is shown first: the last one of the program, not one of its exit handlers; of several
//! threads the first one.

use gpumem_capture::{Event, EventKind, Level, Seq, StackId};

use crate::backward::{Origin, chain};
use crate::failures::OutOfMemory;
use crate::names::Names;
use crate::replay::Replay;

/// Names of the oldest function of a Python program: a module's code, and `python -m`.
const PROGRAM: [&str; 2] = ["<module>", "_run_module_as_main"];
/// That of threads of `threading`.
const THREAD: &str = "_bootstrap";

/// What called the code of a stack first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Root {
    /// The program: a module's code.
    Program,
    /// A thread of the program.
    Thread,
    /// The interpreter, or other native code: a handler of exceptions or of the process's exit, a callback.
    Native,
    /// Not known: no Python, or older frames were cut off.
    Unknown,
}

impl Root {
    fn of(names: &Names, stack: StackId) -> Self {
        let stack = match names.backwards.get(&stack).map(|ran| chain(names, ran).1) {
            Some(Origin::Forward(forward)) => forward,
            Some(Origin::NoPython | Origin::Lost) => return Self::Unknown,
            None => stack,
        };
        let Some((frames, false)) = names.py_stacks.get(&stack) else {
            return Self::Unknown;
        };
        let Some(code) = frames.last().and_then(|of| names.codes.get(&of.code)) else {
            return Self::Unknown;
        };
        // The name is qualified from Python 3.11 on.
        let name = code.name.rsplit('.').next().unwrap_or_default();
        match name {
            THREAD => Self::Thread,
            name if PROGRAM.contains(&name) => Self::Program,
            _ => Self::Native,
        }
    }

    fn is_programs(self) -> bool {
        matches!(self, Self::Program | Self::Thread)
    }
}

impl Replay {
    /// The failure to show first, with its number: the last exception of the program, else its last failure. If that is one
    /// of several threads that failed, the first of these: a pool goes on, with what its exceptions keep.
    pub fn main_failure(&self) -> Option<(u64, OutOfMemory)> {
        let all = self.failures.all();
        let is_handlers = self.of_handlers(&all);
        let of_program = || {
            let pairs = all.iter().zip(&is_handlers);
            pairs.filter(|(_, is)| !**is).map(|(of, _)| of)
        };
        let exception = of_program().rfind(|(_, failure)| failure.is_exception());
        let last = exception.or(of_program().next_back()).copied()?;
        let is_like = |of: &OutOfMemory| {
            let root = Root::of(&self.names, of.span_context.stacks.py);
            root == Root::Thread && of.is_exception() == last.1.is_exception()
        };
        let of_threads = || of_program().filter(|(_, of)| is_like(of));
        let is_other = |(_, of): &(u64, OutOfMemory)| of.event.thread != last.1.event.thread;
        match is_like(&last.1) && of_threads().any(is_other) {
            true => of_threads().next().copied(),
            false => Some(last),
        }
    }

    /// Whether a failure is one of a handler that ran after the failure that ended the program.
    pub fn is_of_handler(&self, failure: Seq) -> bool {
        let all = self.failures.all();
        let mut pairs = all.iter().zip(self.of_handlers(&all));
        pairs.any(|((_, of), is)| is && of.seq == failure)
    }

    /// Whether an event shows that the program went on after a failure: its Python code allocated a tensor on that thread,
    /// which is not a handler's, or a phase of a training began.
    pub fn goes_on(&self, failed: &Event, event: &Event) -> bool {
        match event.kind {
            EventKind::PHASE_BEGIN => true,
            EventKind::ALLOC => {
                let root = |of: &Event| Root::of(&self.names, of.py_stack);
                (event.level, event.thread) == (Level::TENSOR, failed.thread)
                    && event.py_stack != StackId::NONE
                    && !(root(event) == Root::Native && root(failed).is_programs())
            }
            _ => false,
        }
    }

    /// Of each failure, whether it belongs to a handler: the interpreter called the code, on the thread of an earlier failure
    /// within the program's own code, and no step of a training ended in between.
    fn of_handlers(&self, all: &[(u64, OutOfMemory)]) -> Vec<bool> {
        let py = |failure: &OutOfMemory| failure.span_context.stacks.py;
        let roots = all
            .iter()
            .map(|(_, failure)| Root::of(&self.names, py(failure)));
        let roots: Vec<Root> = roots.collect();
        let is_handlers = |at: usize| {
            let failure = &all[at].1;
            let mut before = all.iter().zip(&roots).take(at);
            roots[at] == Root::Native
                && before.any(|((_, earlier), root)| {
                    // A backward's failure is raised in the thread that called it.
                    let same_thread = earlier.event.thread == failure.event.thread
                        || self.names.backwards.contains_key(&py(earlier));
                    root.is_programs()
                        && same_thread
                        && earlier.span_context.steps == failure.span_context.steps
                })
        };
        (0..all.len()).map(is_handlers).collect()
    }
}

#[cfg(test)]
mod tests;
