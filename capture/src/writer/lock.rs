//! Locks of a recorder's own state.
//!
//! A thread of the program that wants one must never wait behind another that waits itself. So nothing that may wait
//! happens under a lock: no record that waits for room in the ring ([`super::Writer::in_order`] records without),
//! and no call of the driver's or NVML's. With debug assertions, such a thing panics.

use core::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::attempt::LockHeld;

/// A lock that is held for moments only.
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Unlocked.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// What it guards, which is whole whoever panicked meanwhile.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        Guard {
            guard: self.0.lock().unwrap_or_else(PoisonError::into_inner),
            _held: LockHeld::new(),
        }
    }
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// What a [`Lock`] guards, locked.
pub struct Guard<'a, T> {
    guard: MutexGuard<'a, T>,
    _held: LockHeld,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
