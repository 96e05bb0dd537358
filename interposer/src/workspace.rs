//! Whether PyTorch is allocating a workspace for cuBLAS on the calling thread.

use gpumem_capture::EventFlags;

use crate::thread::{self, Thread};

fn change(to: impl FnOnce(u32) -> u32) {
    thread::with(|thread| thread.workspaces.set(to(thread.workspaces.get())));
}

/// While it exists, allocations of the thread are workspaces; it is dropped by an exception as
/// well.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        change(|depth| depth.saturating_sub(1));
    }
}

/// Records that the thread begins to allocate a workspace.
pub(crate) fn enter() -> Entered {
    change(|depth| depth.saturating_add(1));
    Entered
}

/// [`EventFlags::WORKSPACE`] for allocations of the calling thread now, if they are workspaces.
#[inline]
pub(crate) fn flag(thread: &Thread) -> EventFlags {
    match thread.workspaces.get() {
        0 => EventFlags::NONE,
        _ => EventFlags::WORKSPACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_ends_with_an_exception() {
        assert_eq!(thread::with(flag), EventFlags::NONE);
        let left = std::panic::catch_unwind(|| {
            let _outer = enter();
            drop(enter());
            assert_eq!(thread::with(flag), EventFlags::WORKSPACE);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(left.is_err());
        assert_eq!(thread::with(flag), EventFlags::NONE);
    }
}
