//! Lines on stderr: few, complete, and only while stderr is still the same file as when the library was loaded.

use core::sync::atomic::Ordering;

use gpumem_capture::text::clean_lines;
use gpumem_sys::{raw, signal::Blocked};

use crate::process::PROCESS;

/// The identity of the file behind descriptor 2, as one number; 0 if it is closed.
fn identity() -> u64 {
    // SAFETY: an all-zero stat structure is a valid value of it.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let arguments = [2, &raw mut stat as usize, 0, 0, 0, 0];
    // SAFETY: the structure is valid for writing.
    if unsafe { raw::call(libc::SYS_fstat, arguments) } != 0 {
        return 0;
    }
    (stat.st_dev.rotate_left(32) ^ stat.st_ino) | 1
}

/// Remembers which file stderr is. Called when the library is loaded, before the program's own code: what gets this
/// descriptor later is the program's data.
pub(crate) fn remember() {
    PROCESS.stderr.store(identity(), Ordering::Relaxed);
}

/// How long to wait for a slow reader of stderr; not at all for one that has not read for that long before.
const PATIENCE_NS: libc::c_long = 25_000_000;

/// Writes a line as `gpumem: …`. Silent if stderr was closed when the library was loaded, or has become another file
/// since, because a program may use that descriptor for its data. Silent, too, if stderr is not being read, is full, or
/// is the terminal of another job: a program that writes nothing must neither end by a signal nor stop nor wait for us.
pub(crate) fn line(text: &str) {
    let then = PROCESS.stderr.load(Ordering::Relaxed);
    if then == 0 || then != identity() {
        return;
    }
    // Names in it are the program's.
    let whole = format!("gpumem: {}\n", clean_lines(text));
    let mut rest = whole.as_bytes();
    let _guard = Blocked::new();
    while !rest.is_empty() && takes_more() {
        // A pipe with room takes this much at once.
        let part = rest.get(..rest.len().min(libc::PIPE_BUF)).unwrap_or(rest);
        let arguments = [2, part.as_ptr() as usize, part.len(), 0, 0, 0];
        // SAFETY: the buffer is valid for its length.
        let written = unsafe { raw::call(libc::SYS_write, arguments) };
        match usize::try_from(written) {
            Ok(count) if count > 0 => rest = rest.get(count..).unwrap_or(&[]),
            _ if written == -(libc::EINTR as isize) => {}
            _ => return,
        }
    }
}

/// Whether stderr has room within a short time.
fn takes_more() -> bool {
    let mut asked = libc::pollfd {
        fd: 2,
        events: libc::POLLOUT,
        revents: 0,
    };
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: match PROCESS.stderr_is_stuck.load(Ordering::Relaxed) {
            true => 0,
            false => PATIENCE_NS,
        },
    };
    let arguments = [
        &raw mut asked as usize,
        1,
        &raw const time as usize,
        0,
        0,
        0,
    ];
    // SAFETY: one structure, valid for reading and writing, and a time; no mask.
    let ready = unsafe { raw::call(libc::SYS_ppoll, arguments) };
    PROCESS.stderr_is_stuck.store(ready == 0, Ordering::Relaxed);
    ready > 0 && asked.revents & libc::POLLOUT != 0
}
