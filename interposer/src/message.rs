//! Lines on stderr: few, whole, and only while stderr is still what it was when we first looked.

use core::sync::atomic::{AtomicU64, Ordering};

/// Device and inode of stderr when the capture was opened; 0 if it was closed.
static STDERR: AtomicU64 = AtomicU64::new(0);

/// What the file descriptor 2 leads to now, as one number; 0 if it is closed.
fn identity() -> u64 {
    // SAFETY: an all-zero stat structure is a valid value of it.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is valid for writing.
    if unsafe { libc::fstat(2, &mut stat) } != 0 {
        return 0;
    }
    (stat.st_dev.rotate_left(32) ^ stat.st_ino) | 1
}

/// Remembers what stderr is.
pub(crate) fn remember() {
    STDERR.store(identity(), Ordering::Relaxed);
}

/// Writes a line as `gpumem: …`. Silent if stderr is closed, or has become another file since
/// [`remember`]: a daemon may keep its data behind that number.
pub(crate) fn line(text: &str) {
    let now = identity();
    let then = STDERR.load(Ordering::Relaxed);
    if now == 0 || (then != 0 && then != now) {
        return;
    }
    let whole = format!("gpumem: {text}\n");
    let mut rest = whole.as_bytes();
    while !rest.is_empty() {
        // SAFETY: the buffer is valid for its length.
        let written = unsafe { libc::write(2, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(count) if count > 0 => rest = rest.get(count..).unwrap_or(&[]),
            // SAFETY: errno's address is valid for the thread's life.
            _ if unsafe { *libc::__errno_location() } == libc::EINTR => {}
            _ => return,
        }
    }
}
