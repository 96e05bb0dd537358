//! One hooked call, from its entry to its return or to the exception that leaves it.

use gpumem_capture::ApiId;

use crate::symbols::table::Hook;
use crate::thread;

/// A hooked call in progress on this thread.
pub(crate) struct Call {
    api: u16,
    allocated_before: u32,
    outermost: bool,
    owns_release: bool,
}

impl Call {
    /// Enters a call of `hook`.
    pub(crate) fn enter(hook: &'static Hook) -> Self {
        thread::with(|thread| {
            let depth = thread.depth.get();
            thread.depth.set(depth + 1);
            if depth == 0 {
                thread.api.set(hook.id);
            }
            Self {
                api: thread.api.get(),
                allocated_before: thread.allocated.get(),
                outermost: depth == 0,
                owns_release: false,
            }
        })
        .unwrap_or(Self {
            api: hook.id,
            allocated_before: 0,
            outermost: false,
            owns_release: false,
        })
    }

    /// The name under which this call's event is recorded: the outermost function.
    pub(crate) fn api(&self) -> ApiId {
        ApiId(self.api)
    }

    /// Whether an inner hook has recorded an allocation since this call began.
    pub(crate) fn inner_allocated(&self) -> bool {
        thread::with(|t| t.allocated.get() != self.allocated_before).unwrap_or(false)
    }

    /// Tells outer hooks that the allocation is recorded.
    pub(crate) fn note_allocated(&self) {
        let _ = thread::with(|t| t.allocated.set(t.allocated.get().wrapping_add(1)));
    }

    /// Claims the recording of `pointer`'s release; false if an outer hook has it.
    pub(crate) fn claim_release(&mut self, pointer: u64) -> bool {
        self.owns_release = thread::with(|t| {
            let free = t.releasing.get() != pointer;
            if free {
                t.releasing.set(pointer);
            }
            free
        })
        .unwrap_or(true);
        self.owns_release
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let _ = thread::with(|thread| {
            thread.depth.set(thread.depth.get().saturating_sub(1));
            if self.owns_release || self.outermost {
                thread.releasing.set(0);
            }
            if self.outermost {
                thread.depth.set(0);
                thread.api.set(0);
            }
        });
    }
}
