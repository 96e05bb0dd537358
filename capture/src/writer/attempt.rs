//! How a record is handled if there is no room, and which threads may wait.

#[cfg(debug_assertions)]
use std::cell::Cell;
use std::marker::PhantomData;

use super::error::Lost;

/// How a record is handled if there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfFull {
    /// It waits for room, for a limited time, and is then lost.
    Wait,
    /// Nothing happens: [`Lost::RingFull`], which is not counted.
    Refuse,
    /// It is lost.
    Lose,
}

/// An attempt to record something without waiting: see [`super::Writer::in_order`].
#[derive(Clone, Copy, Debug)]
pub struct Attempt(pub(super) IfFull);

impl Attempt {
    /// The first one, which may be refused.
    pub const FIRST: Self = Self(IfFull::Refuse);
}

/// There was no room for a record, and nothing has happened. [`super::Writer::wait_for_room`] returns the next
/// attempt.
#[derive(Debug)]
#[must_use = "nothing is recorded"]
pub struct Refused {
    pub(super) slots: u64,
}

impl Attempt {
    pub(super) fn result<T>(
        self,
        result: Result<T, Lost>,
        slots: u64,
    ) -> Result<Result<T, Lost>, Refused> {
        match result {
            Err(Lost::RingFull) if self.0 == IfFull::Refuse => Err(Refused { slots }),
            result => Ok(result),
        }
    }
}

#[cfg(debug_assertions)]
thread_local! {
    /// The number of the caller's locks that the thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Marks that the thread holds a lock for which other threads may wait, until it is dropped. With debug assertions,
/// functions that may wait for room then panic, whether there is room or not.
#[derive(Debug)]
pub struct LockHeld {
    _of_this_thread: PhantomData<*mut ()>,
}

impl LockHeld {
    /// Starts the mark.
    #[inline]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.set(held.get() + 1));
        Self {
            _of_this_thread: PhantomData,
        }
    }
}

impl Drop for LockHeld {
    #[inline]
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.set(held.get() - 1));
    }
}

/// With debug assertions: panics if the thread holds a lock for which other threads may wait. For operations that may
/// take long.
#[inline(always)]
#[track_caller]
pub fn assert_may_wait() {
    #[cfg(debug_assertions)]
    assert_eq!(HELD.with(Cell::get), 0, "a lock is held by what may wait");
}
