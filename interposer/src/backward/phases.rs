//! The phases of a training: backward, an optimizer's step, zeroing of gradients.
//!
//! Backward is the run of PyTorch's engine. Optimizers announce their steps and the zeroing to PyTorch's
//! profiler, like every `record_function` of a program; the Python code of the announcement determines the
//! phase. All of it is per thread and nested.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use gpumem_capture::{ApiId, EventKind, Level, Phase};
use gpumem_python_frames::{Finding, Frame, finding};
use gpumem_stacks::thread_static;

use super::steps::Steps;
use super::{running, session};
use crate::account::{self, Once};
use crate::sideband::{self, Sideband};
use crate::thread::{self, Thread};

/// A phase that the thread is in; all zeros for none.
#[derive(Clone, Copy)]
struct Open {
    phase: Phase,
    /// The key that identifies its end: PyTorch's object, or 0.
    key: u64,
    /// For an optimizer's step: the Python stack that called it.
    place: u32,
}

/// The maximum number of nested phases that are recorded.
const DEEPEST: usize = 8;

const NONE: Open = Open {
    phase: Phase(0),
    key: 0,
    place: 0,
};

/// The phases that a thread is in.
#[repr(C)]
struct Phases {
    /// The number of phases. It comes first, because the hook of their end reads it ([`to_2_in_a_phase`]).
    depth: Cell<usize>,
    open: [Cell<Open>; DEEPEST],
}

thread_static! {
    /// This thread's phases.
    fn place() -> Phases as "gpumem_phases";
}

/// The instructions that jump to label 2 if the thread is in a phase. They change no register that passes an
/// argument.
macro_rules! to_2_in_a_phase {
    () => {
        concat!(
            "mov r11, [rip + gpumem_phases@GOTTPOFF]\n",
            "cmp qword ptr fs:[r11], 0\n",
            "jne 2f\n",
        )
    };
}
pub(crate) use to_2_in_a_phase;

#[inline(always)]
fn phases() -> &'static Phases {
    // SAFETY: it is this thread's alone, valid as zeros, and lives as long as the thread, beyond which nobody
    // here keeps it; it consists of cells, so that shared references are enough.
    unsafe { &*place() }
}

/// The number of phases that the thread is in.
#[inline]
fn depth() -> usize {
    phases().depth.get()
}

/// The phase at a depth.
fn open_at(depth: usize) -> Option<Open> {
    phases().open.get(depth).map(Cell::get)
}

/// Records that the thread enters a phase; false if there is no room for another one.
fn begin(thread: &Thread, api: ApiId, new: Open) -> bool {
    let depth = depth();
    let Some(place) = phases().open.get(depth) else {
        return false;
    };
    place.set(new);
    phases().depth.set(depth + 1);
    tell(thread, api, EventKind::PHASE_BEGIN, new.phase);
    true
}

/// Records that the thread leaves all phases beyond a depth, the innermost first.
fn end(thread: &Thread, api: ApiId, kept: usize) {
    while let Some(inner) = depth().checked_sub(1).filter(|&inner| inner >= kept) {
        let left = open_at(inner);
        phases().depth.set(inner);
        let Some(left) = left else { return };
        tell(thread, api, EventKind::PHASE_END, left.phase);
        if is_in(left.phase) {
            continue;
        }
        match left.phase {
            Phase::BACKWARD => step(thread, api, Steps::backward_ended),
            Phase::OPTIMIZER => step(thread, api, |steps| {
                steps.optimizer_ended((thread.id(), left.place))
            }),
            _ => {}
        }
    }
}

/// Whether the thread is in a phase.
fn is_in(phase: Phase) -> bool {
    (0..depth()).any(|at| open_at(at).is_some_and(|open| open.phase == phase))
}

fn tell(thread: &Thread, api: ApiId, kind: EventKind, phase: Phase) {
    let what = Sideband {
        aux: phase.0,
        ..Sideband::default()
    };
    let recorded = sideband::record(thread, api, kind, Level::TENSOR, what);
    if let (EventKind::PHASE_END, Some(seq), Some(session)) = (kind, recorded, session()) {
        session.trained_until.fetch_max(seq.0, Ordering::Relaxed);
    }
}

/// Records a step, if `change` returns the number of one that has ended.
fn step(thread: &Thread, api: ApiId, change: impl FnOnce(&mut Steps) -> Option<u64>) {
    let number = session().and_then(|session| change(session.steps.lock().note()));
    tell_step(thread, api, number, false);
}

fn tell_step(thread: &Thread, api: ApiId, number: Option<u64>, said: bool) {
    if let Some(aux) = number {
        let what = Sideband {
            aux,
            bytes: u64::from(said),
            ..Sideband::default()
        };
        sideband::record(thread, api, EventKind::STEP, Level::TENSOR, what);
    }
}

/// Records a step that the program reports.
pub(crate) fn step_said(thread: &Thread) {
    account::is_first(Once::StepsTold);
    let number = session::session().map(|session| session.steps.lock().note().said());
    tell_step(thread, ApiId(0), number, true);
}

/// A run of autograd's engine; it ends when the value is dropped, also by an exception.
pub(crate) struct Backward {
    api: ApiId,
    before: usize,
}

impl Drop for Backward {
    fn drop(&mut self) {
        let _ = thread::in_hook(|thread| end(thread, self.api, self.before));
    }
}

/// Records that the calling thread enters autograd's engine. None if a node runs on it, because it is already in
/// backward.
pub(crate) fn backward(api: ApiId) -> Option<Backward> {
    session()?;
    if running::current().is_some() {
        return None;
    }
    let before = depth();
    let new = Open {
        phase: Phase::BACKWARD,
        ..NONE
    };
    thread::in_hook(|thread| begin(thread, api, new))?.then_some(Backward { api, before })
}

/// Handles a scope that the program announced to PyTorch's profiler, with the object at `key`.
pub(crate) fn announced(api: ApiId, key: u64) {
    let Some(session) = session() else { return };
    let _ = thread::in_hook(|thread| {
        let Some(phase) = announcer() else { return };
        let is_first = !is_in(Phase::OPTIMIZER);
        let place = match phase {
            Phase::OPTIMIZER => crate::stacks::own_python(session).0,
            _ => 0,
        };
        // Gradients that an optimizer zeroes during its step do not count as a phase.
        if phase == Phase::ZERO_GRAD && is_first {
            step(thread, api, Steps::zeroing);
        }
        begin(thread, api, Open { phase, key, place });
    });
}

/// Handles the end of the scope of the object at `key`, perhaps not for the first time.
#[inline]
pub(crate) fn ended(api: ApiId, key: u64) {
    if depth() > 0 {
        end_of(api, key);
    }
}

fn end_of(api: ApiId, key: u64) {
    let place = (0..depth())
        .rev()
        .find(|&at| open_at(at).is_some_and(|open| open.key == key));
    if let Some(place) = place {
        let _ = thread::in_hook(|thread| end(thread, api, place));
    }
}

/// The number of newest frames that are searched for the code that announces a scope.
const NEWEST: usize = 12;

/// The phase that PyTorch's own optimizers are announcing; None for any other scope.
fn announcer() -> Option<Phase> {
    let Some(Finding::Readable(runtime)) = finding() else {
        return None;
    };
    let mut frames = [Frame::default(); NEWEST];
    let walked = runtime.walk(&mut frames)?;
    let mut names = Vec::new();
    for frame in frames.get(..walked.len)? {
        // SAFETY: no Python code runs on this thread between the walk and here.
        let code = unsafe { runtime.code(frame, &mut names) }?;
        if !is_of_the_profiler(code.file) {
            return phase_of(code.file, code.name);
        }
    }
    None
}

/// The code of a plan inside the program; scopes pass through it if the plan has a dispatch mode.
const PLANNER: &[u8] = b"gpumem/_plan/inside/";

/// Whether a file is between the announcing code and the profiler.
fn is_of_the_profiler(file: &[u8]) -> bool {
    [&b"torch/autograd/profiler.py"[..], b"torch/_ops.py"]
        .iter()
        .any(|end| file.ends_with(end))
        || file.windows(PLANNER.len()).any(|part| part == PLANNER)
}

/// The phase that a function of PyTorch's optimizers announces.
fn phase_of(file: &[u8], name: &[u8]) -> Option<Phase> {
    if !file.ends_with(b"torch/optim/optimizer.py") {
        return None;
    }
    // Qualified from Python 3.11 on: `Optimizer.profile_hook_step.<locals>.wrapper`.
    match name.rsplit(|&byte| byte == b'.').next()? {
        b"wrapper" => Some(Phase::OPTIMIZER),
        b"zero_grad" => Some(Phase::ZERO_GRAD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimizers_are_told_from_other_scopes() {
        let file = b"/usr/lib/python3/torch/optim/optimizer.py";
        let of = |name: &[u8]| phase_of(file, name);
        assert_eq!(of(b"wrapper"), Some(Phase::OPTIMIZER));
        assert_eq!(
            of(b"Optimizer.profile_hook_step.<locals>.wrapper"),
            Some(Phase::OPTIMIZER)
        );
        assert_eq!(of(b"Optimizer.zero_grad"), Some(Phase::ZERO_GRAD));
        assert_eq!(of(b"Optimizer.load_state_dict"), None);
        assert_eq!(phase_of(b"train.py", b"wrapper"), None);
        assert!(is_of_the_profiler(b"/x/torch/_ops.py") && !is_of_the_profiler(file));
        assert!(is_of_the_profiler(b"/x/gpumem/_plan/inside/mode.py"));
    }
}
