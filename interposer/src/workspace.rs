//! Whether PyTorch takes a workspace for cuBLAS on the calling thread at this moment.

use core::cell::Cell;

use gpumem_capture::EventFlags;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, what the thread allocates is a workspace; left by an exception as well.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

/// The thread begins to take a workspace.
pub(crate) fn enter() -> Entered {
    let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
    Entered
}

/// [`EventFlags::WORKSPACE`] for what is allocated now, if it is one.
pub(crate) fn flag() -> EventFlags {
    match DEPTH.try_with(Cell::get) {
        Ok(0) | Err(_) => EventFlags::NONE,
        Ok(_) => EventFlags::WORKSPACE,
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
