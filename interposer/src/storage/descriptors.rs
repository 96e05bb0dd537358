//! A table of file descriptors of a thread's own.
//!
//! Programs close descriptors that they did not open (daemons, `closefrom`) and open others under the same numbers. What
//! a thread with a table of its own has open is not concerned, and what it opens no program can meet.

/// Descriptors that are closed one by one where nobody says which are open.
const WITHOUT_PROC: libc::c_int = 65_536;

/// Gives the calling thread, and threads that it starts, a table of their own, with nothing in it. It is made in one of
/// two ways:
/// 1. `close_range` with CLOSE_RANGE_UNSHARE, from Linux 5.9 on. Docker's default filter of system calls allows it.
/// 2. `unshare`, which that filter refuses.
///
/// False where the system allows neither: the table then stays the program's.
pub(super) fn own_table() -> bool {
    // A pipe whose end stayed open here would never end for whoever reads it: so all descriptors are closed.
    if close_all(libc::CLOSE_RANGE_UNSHARE) {
        return true;
    }
    // SAFETY: the call concerns the calling thread alone.
    let is_own = unsafe { libc::unshare(libc::CLONE_FILES) } == 0;
    if is_own && !close_all(0) {
        close_each();
    }
    is_own
}

/// Closes all descriptors, of a copy of the table if `flags` say so.
fn close_all(flags: libc::c_uint) -> bool {
    // SAFETY: closes this thread's copies, which nothing here uses.
    unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, flags) == 0 }
}

/// The same where the kernel (before 5.9) has no call for it.
fn close_each() {
    for number in open_numbers().unwrap_or_else(|| (0..WITHOUT_PROC).collect()) {
        // SAFETY: a descriptor of this thread's own table, which nothing here uses.
        unsafe { libc::close(number) };
    }
}

/// The descriptors of this thread's table. None where there is no /proc.
fn open_numbers() -> Option<Vec<libc::c_int>> {
    let entries = std::fs::read_dir("/proc/thread-self/fd").ok()?;
    let names = entries.flatten().map(|entry| entry.file_name());
    Some(
        names
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect(),
    )
}
