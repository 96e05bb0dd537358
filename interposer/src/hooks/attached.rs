//! How often each context was attached to (`cuCtxAttach`), beyond its creation.

use std::collections::BTreeMap;

use gpumem_capture::writer::lock::{Guard, Lock};

/// Never locked across a driver call.
fn attached() -> Guard<'static, BTreeMap<u64, u32>> {
    static ATTACHED: Lock<BTreeMap<u64, u32>> = Lock::new(BTreeMap::new());
    ATTACHED.lock()
}

/// Counts one hold more.
pub(super) fn more(context: u64) {
    *attached().entry(context).or_insert(0) += 1;
}

/// Counts one hold less.
pub(super) fn less(context: u64) {
    let mut attached = attached();
    if let Some(count) = attached.get_mut(&context) {
        *count -= 1;
        if *count == 0 {
            attached.remove(&context);
        }
    }
}

/// Whether there is a hold beyond the context's creation.
pub(super) fn is_held(context: u64) -> bool {
    attached().contains_key(&context)
}

/// Forgets the holds on a context that has ended.
pub(super) fn forget(context: u64) {
    attached().remove(&context);
}
