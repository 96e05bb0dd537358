//! Lines on stderr: few, complete, and only while stderr is still the same file as at first.

use core::sync::atomic::Ordering;

use gpumem_sys::signal::Blocked;

use crate::process::PROCESS;

/// The identity of the file behind descriptor 2, as one number; 0 if it is closed.
fn identity() -> u64 {
    // SAFETY: an all-zero stat structure is a valid value of it.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is valid for writing.
    if unsafe { libc::fstat(2, &mut stat) } != 0 {
        return 0;
    }
    (stat.st_dev.rotate_left(32) ^ stat.st_ino) | 1
}

/// Remembers the identity of stderr.
pub(crate) fn remember() {
    PROCESS.stderr.store(identity(), Ordering::Relaxed);
}

/// How long to wait for a slow reader of stderr.
const PATIENCE_MS: libc::c_int = 100;

/// Writes a line as `gpumem: …`. Silent if stderr is closed, or has become another file since
/// [`remember`], because a daemon may use that descriptor for its data. Silent, too, if stderr is not
/// being read: a program that writes nothing must neither end by SIGPIPE nor wait for us.
pub(crate) fn line(text: &str) {
    let now = identity();
    let then = PROCESS.stderr.load(Ordering::Relaxed);
    if now == 0 || (then != 0 && then != now) {
        return;
    }
    let whole = format!("gpumem: {text}\n");
    let mut rest = whole.as_bytes();
    // The pipe may have no reader any more, which must not end the program.
    let _guard = Blocked::new(libc::SIGPIPE);
    while !rest.is_empty() && takes_more() {
        // A pipe with room takes this much at once.
        let part = rest.get(..rest.len().min(libc::PIPE_BUF)).unwrap_or(rest);
        // SAFETY: the buffer is valid for its length.
        let written = unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
        match usize::try_from(written) {
            Ok(count) if count > 0 => rest = rest.get(count..).unwrap_or(&[]),
            // SAFETY: errno's address is valid for the thread's life.
            _ if unsafe { *libc::__errno_location() } == libc::EINTR => {}
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
    // SAFETY: one structure, valid for reading and writing.
    let ready = unsafe { libc::poll(&raw mut asked, 1, PATIENCE_MS) };
    ready > 0 && asked.revents & libc::POLLOUT != 0
}
