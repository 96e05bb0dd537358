//! Ranges as events.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use gpumem_capture::{ApiId, EventKind, Level};

use super::state::NVTX;
use crate::names;
use crate::session;
use crate::sideband::{self, Sideband};
use crate::thread::Thread;

/// Stores a text under a number.
pub(super) fn register(number: u64, text: &[u8]) {
    if NVTX.texts().len() < names::MOST {
        NVTX.texts().insert(number, names::cut(text).into());
    }
}

/// The text under a number.
pub(super) fn registered(number: u64) -> Option<Vec<u8>> {
    NVTX.texts().get(&number).map(|text| text.to_vec())
}

/// Records the start of a range; false if it is not recorded.
fn begin(thread: &Thread, name: &[u8], handle: u64) -> bool {
    let Some(session) = session::session() else {
        return false;
    };
    let Some(id) = session.names.id_of(session.writer, name) else {
        return false;
    };
    tell(thread, EventKind::RANGE_BEGIN, u64::from(id), handle);
    true
}

fn tell(thread: &Thread, kind: EventKind, aux: u64, handle: u64) {
    let what = Sideband {
        ptr: handle,
        aux,
        ..Sideband::default()
    };
    sideband::record(thread, ApiId(0), kind, Level::TENSOR, what);
}

/// A range that the thread has pushed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pushed {
    /// 0 for the default domain.
    domain: u32,
    /// 0 if its start is not recorded. In the default domain [`PLAIN`], in others its number.
    handle: u32,
}

/// Marks a recorded range of the default domain, whose event has no handle.
const PLAIN: u32 = u32::MAX;

/// Set in the handles of pushed ranges, to separate them from the numbers of [`start`].
const PUSHED: u64 = 1 << 63;

/// The maximum number of nested ranges that are recorded.
const DEEPEST: usize = 32;

thread_local! {
    static STACK: [Cell<Pushed>; DEEPEST] =
        const { [const { Cell::new(Pushed { domain: 0, handle: 0 }) }; DEEPEST] };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A domain in fewer bits, because programs have few domains; 0 stays 0.
fn folded(domain: u64) -> u32 {
    (domain ^ domain >> 32) as u32
}

/// The handle in the events of a pushed range.
fn handle_of(range: Pushed) -> u64 {
    match range.handle {
        PLAIN => 0,
        handle => PUSHED | u64::from(handle),
    }
}

/// Begins a range on the thread, nested in its other ranges.
pub(super) fn push(thread: &Thread, domain: u64, name: &[u8]) {
    let depth = DEPTH.try_with(|depth| depth.replace(depth.get() + 1));
    let Ok(depth) = depth else { return };
    let domain = folded(domain);
    let mut range = Pushed {
        domain,
        handle: match domain {
            0 => PLAIN,
            // Neither 0 nor PLAIN.
            _ => NVTX.pushed.fetch_add(1, Ordering::Relaxed) % (PLAIN - 1) + 1,
        },
    };
    if depth >= DEEPEST {
        return;
    }
    if !begin(thread, name, handle_of(range)) {
        range.handle = 0;
    }
    let _ = STACK.try_with(|stack| stack.get(depth).map(|place| place.set(range)));
}

/// Ends the thread's newest range of a domain.
pub(super) fn pop(thread: &Thread, domain: u64) {
    let range = STACK.try_with(|stack| take(stack, folded(domain)));
    if let Ok(Some(range)) = range
        && range.handle != 0
    {
        tell(thread, EventKind::RANGE_END, 0, handle_of(range));
    }
}

/// Removes the newest range of a domain from the stack; None if there is no range, or it is too deep
/// to have been stored.
fn take(stack: &[Cell<Pushed>], domain: u32) -> Option<Pushed> {
    let depth = DEPTH.try_with(Cell::get).ok()?;
    if depth > DEEPEST {
        let _ = DEPTH.try_with(|place| place.set(depth - 1));
        return None;
    }
    let kept = stack.get(..depth)?;
    let at = kept
        .iter()
        .rposition(|range| range.get().domain == domain)?;
    let range = kept.get(at)?.get();
    for pair in kept.get(at..)?.windows(2) {
        if let [older, newer] = pair {
            older.set(newer.get());
        }
    }
    let _ = DEPTH.try_with(|place| place.set(depth - 1));
    Some(range)
}

/// Begins a range that any thread may end, by its number.
pub(super) fn start(thread: &Thread, number: u64, name: &[u8]) {
    if begin(thread, name, number) {
        NVTX.started().insert(number, ());
    }
}

/// Ends the range with that number.
pub(super) fn end(thread: &Thread, number: u64) {
    if NVTX.started().remove(&number).is_some() {
        tell(thread, EventKind::RANGE_END, 0, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread;

    fn depth() -> usize {
        DEPTH.with(Cell::get)
    }

    #[test]
    fn domains_are_nested_each_for_itself() {
        let taken = |domain| {
            STACK
                .with(|stack| take(stack, domain))
                .map(|range| range.handle)
        };
        let put = |domain, handle| {
            STACK.with(|stack| stack[depth()].set(Pushed { domain, handle }));
            DEPTH.with(|place| place.set(depth() + 1));
        };
        for (domain, handle) in [(0, 1), (7, 2), (0, 3), (7, 4)] {
            put(domain, handle);
        }
        assert_eq!(taken(0), Some(3));
        assert_eq!(taken(7), Some(4));
        assert_eq!(taken(9), None);
        assert_eq!(taken(7), Some(2));
        assert_eq!(taken(7), None);
        assert_eq!(taken(0), Some(1));
        assert_eq!((taken(0), depth()), (None, 0));
    }

    #[test]
    fn what_is_too_deep_is_left_out_and_the_rest_stays_in_order() {
        thread::with(|thread| {
            // Tests record nothing, but ranges are still counted.
            for _ in 0..DEEPEST + 5 {
                push(thread, 0, b"deep");
            }
            for left in (0..DEEPEST + 5).rev() {
                pop(thread, 0);
                assert_eq!(depth(), left);
            }
            pop(thread, 0);
            assert_eq!(depth(), 0);
        });
    }
}
