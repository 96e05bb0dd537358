//! A lock between processes that survives the death of whoever holds it.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;

/// A mutex of the C library in memory that processes share: *robust*, so the kernel passes it on
/// when its holder dies.
#[repr(C, align(64))]
pub(crate) struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a process-shared mutex is made for being used from everywhere at once.
unsafe impl Sync for Lock {}

/// Held until dropped.
pub(crate) struct Held<'a>(&'a Lock);

/// Checks a result code of the thread library.
fn done(code: libc::c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

impl Lock {
    /// Makes the mutex, once, before anybody else may use it.
    ///
    /// # Safety
    /// Nobody else uses it meanwhile, and its memory is shared by all who will.
    pub(crate) unsafe fn initialise(&self) -> io::Result<()> {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: room for the attributes, which are initialised first and destroyed last; the
        // caller vouches that the mutex is nobody's yet.
        unsafe {
            done(libc::pthread_mutexattr_init(attributes))?;
            let made = done(libc::pthread_mutexattr_setpshared(
                attributes,
                libc::PTHREAD_PROCESS_SHARED,
            ))
            .and_then(|()| {
                let robust = libc::PTHREAD_MUTEX_ROBUST;
                done(libc::pthread_mutexattr_setrobust(attributes, robust))
            })
            .and_then(|()| done(libc::pthread_mutex_init(self.0.get(), attributes)));
            libc::pthread_mutexattr_destroy(attributes);
            made
        }
    }

    /// Waits for the lock. What it guards is whole even if the last holder died: each change is
    /// one store.
    pub(crate) fn hold(&self) -> io::Result<Held<'_>> {
        // SAFETY: a mutex that was initialised before the table was given to anybody.
        let code = unsafe { libc::pthread_mutex_lock(self.0.get()) };
        if code == libc::EOWNERDEAD {
            // SAFETY: the call before has given the lock to this thread, to be repaired.
            done(unsafe { libc::pthread_mutex_consistent(self.0.get()) })?;
        } else {
            done(code)?;
        }
        Ok(Held(self))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.0.get()) };
    }
}
