//! Whether PyTorch takes a workspace for cuBLAS on the calling thread at this moment.

use gpumem_capture::EventFlags;

use crate::local::thread_static;

thread_static! {
    /// How many workspaces within one another the thread takes.
    fn place() -> u32 as "gpumem_workspace";
}

fn change(to: impl FnOnce(u32) -> u32) {
    // SAFETY: the word is this thread's alone, and lives as long as the thread.
    unsafe { *place() = to(*place()) };
}

/// While it lives, what the thread allocates is a workspace; left by an exception as well.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        change(|depth| depth.saturating_sub(1));
    }
}

/// The thread begins to take a workspace.
pub(crate) fn enter() -> Entered {
    change(|depth| depth.saturating_add(1));
    Entered
}

/// [`EventFlags::WORKSPACE`] for what is allocated now, if it is one.
pub(crate) fn flag() -> EventFlags {
    // SAFETY: as in `change`.
    match unsafe { *place() } {
        0 => EventFlags::NONE,
        _ => EventFlags::WORKSPACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_ends_with_an_exception() {
        assert_eq!(flag(), EventFlags::NONE);
        let left = std::panic::catch_unwind(|| {
            let _outer = enter();
            drop(enter());
            assert_eq!(flag(), EventFlags::WORKSPACE);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(left.is_err());
        assert_eq!(flag(), EventFlags::NONE);
    }
}
