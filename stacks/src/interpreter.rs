//! Which Python the process has, and what the capture records about it.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use gpumem_capture::writer::lock::Lock;
use gpumem_capture::{DefKind, Lost};
use gpumem_python_frames::{Finding, Runtime, finding};

use super::sink::{DefinitionSink, length};

/// The process's interpreter, as recorded in one capture.
pub(super) struct Interpreter {
    /// Whether the capture states which Python this is, or why its stacks are missing.
    is_announced: AtomicBool,
    /// The interpreter, once the capture states which it is. Null before that, and if there is no readable one.
    runtime: AtomicPtr<Runtime>,
    announcing: Lock<()>,
}

impl Interpreter {
    pub(super) const fn new() -> Self {
        Self {
            is_announced: AtomicBool::new(false),
            runtime: AtomicPtr::new(null_mut()),
            announcing: Lock::new(()),
        }
    }

    /// The interpreter, if the capture already states which it is.
    #[inline(always)]
    pub(super) fn announced(&self) -> Option<&'static Runtime> {
        // SAFETY: null, or that of the process's one finding.
        unsafe { self.runtime.load(Ordering::Acquire).as_ref() }
    }

    /// The interpreter, after recording it in the capture. None if there is no readable one, or if recording failed.
    pub(super) fn find<S: DefinitionSink + ?Sized>(&self, sink: &S) -> Option<&'static Runtime> {
        let found = finding()?;
        self.announce(sink, found).ok()?;
        match found {
            Finding::Readable(runtime) => Some(runtime),
            Finding::Declined(_) => None,
        }
    }

    /// Records in the capture which Python this is, or why there are no Python stacks; once.
    fn announce<S: DefinitionSink + ?Sized>(
        &self,
        sink: &S,
        finding: &'static Finding,
    ) -> Result<(), Lost> {
        sink.in_order(|attempt| {
            if self.is_announced.load(Ordering::Acquire) {
                return Ok(Ok(()));
            }
            let _alone = self.announcing.lock();
            if self.is_announced.load(Ordering::Acquire) {
                return Ok(Ok(()));
            }
            let define =
                |kind, parts: &[&[u8]]| sink.definition_without_waiting(attempt, kind, parts);
            let recorded = match finding {
                Finding::Readable(runtime) => {
                    let (start, end) = runtime.evaluation();
                    let version = runtime.version().0.to_le_bytes();
                    let (start, end) = (start.to_le_bytes(), end.to_le_bytes());
                    define(DefKind::PYTHON, &[&version, &start, &end])?
                }
                Finding::Declined(why) => {
                    let note = format!("no Python stacks are recorded: {why}");
                    define(DefKind::NOTE, &[&length(note.as_bytes()), note.as_bytes()])?
                }
            };
            if recorded.is_ok() {
                if let Finding::Readable(runtime) = finding {
                    let runtime = core::ptr::from_ref::<Runtime>(runtime).cast_mut();
                    self.runtime.store(runtime, Ordering::Release);
                }
                self.is_announced.store(true, Ordering::Release);
            }
            Ok(recorded)
        })
    }
}
