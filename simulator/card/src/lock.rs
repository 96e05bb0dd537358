//! A lock between processes that survives the death of its holder.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;

/// A mutex of the C library in memory that processes share: *robust*, so the kernel passes it on
/// when its holder dies.
#[repr(C, align(64))]
pub(crate) struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a process-shared mutex may be used from several threads and processes at once.
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
    /// Initialises the mutex, once, before any other thread or process may use it.
    ///
    /// # Safety
    /// No other thread or process uses it meanwhile, and its memory is shared by all later users.
    pub(crate) unsafe fn initialise(&self) -> io::Result<()> {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: room for the attributes, which are initialised first and destroyed last; the
        // caller guarantees that the mutex is not in use yet.
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

    /// Waits for the lock. The guarded data is consistent even if the last holder died: each change
    /// is one store.
    pub(crate) fn hold(&self) -> io::Result<Held<'_>> {
        // SAFETY: the mutex was initialised before the table was published.
        let code = unsafe { libc::pthread_mutex_lock(self.0.get()) };
        if code == libc::EOWNERDEAD {
            // SAFETY: the call before has given the lock to this thread, which must repair it.
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
