//! Locks of a recorder's own state.
//!
//! A thread of the program that wants such a lock must never wait for a thread that itself waits. So no operation
//! that may wait runs under a lock: no record that waits for room in the ring ([`super::Writer::in_order`] records
//! without waiting), and no call of the driver or NVML. With debug assertions, such an operation panics.

use core::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::attempt::LockHeld;

/// A lock that is held only briefly.
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks it. The guarded value is consistent even after a panic of another thread.
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

/// The locked value of a [`Lock`].
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
