//! The end of a process whose first thread has ended by `pthread_exit`: the C library ends such a process once its last
//! thread has ended, and the recorder's threads would keep it alive.
//!
//! A thread-specific value of the first thread shows that it has ended: at a process's ordinary end it is not destroyed.
//! From then on, one of the recorder's threads looks for the program's threads, and ends the process as the C library
//! would, in a separate thread.

use core::ffi::c_void;
use core::sync::atomic::Ordering;

use gpumem_sys::threads;

use super::{ours, start, with};
use crate::process::PROCESS;

extern "C" fn main_ends(_: *mut c_void) {
    PROCESS
        .first_ended
        .store(std::process::id(), Ordering::Release);
}

/// Watches the calling thread, if it is the first one of its process.
pub(crate) fn watch_main() {
    if threads::own() != std::process::id() {
        return;
    }
    let mut key = PROCESS.first_key.load(Ordering::Acquire);
    if key == 0 {
        let mut made = 0;
        // SAFETY: the key is valid for writing. The library is never unloaded.
        if unsafe { libc::pthread_key_create(&raw mut made, Some(main_ends)) } != 0 {
            return;
        }
        key = u64::from(made) | 1 << 32;
        PROCESS.first_key.store(key, Ordering::Release);
    }
    // SAFETY: the key exists; the value is only compared with null.
    unsafe { libc::pthread_setspecific(key as u32, main_ends as *const c_void) };
}

/// Ends the process if only the recorder's threads are left of it. Called about every 50 ms, on one of them.
pub(crate) fn check() {
    let process = std::process::id();
    if PROCESS.first_ended.load(Ordering::Acquire) != process || program_lives(process) {
        return;
    }
    PROCESS.first_ended.store(0, Ordering::Release);
    let _ = start(c"gpumem-exit", || {
        with(|thread| thread.in_recorder.set(false));
        super::start::accept_all();
        // SAFETY: no other thread of the program is left.
        unsafe { libc::exit(0) };
    });
}

/// Whether a thread of the program is alive, as far as that can be seen.
fn program_lives(process: u32) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else {
        return true;
    };
    entries.into_iter().any(|entry| {
        let name = entry
            .ok()
            .and_then(|entry| entry.file_name().into_string().ok());
        let Some(thread) = name.and_then(|name| name.parse::<i32>().ok()) else {
            return true;
        };
        !ours::contains(thread) && thread.cast_unsigned() != process
    })
}
