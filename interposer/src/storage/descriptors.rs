//! A separate table of file descriptors for a thread.
//!
//! Programs close descriptors that they did not open (daemons, `closefrom`) and open others under the same numbers. The
//! descriptors of a thread with a separate table are not affected, and are not visible to the program.

/// The number of descriptors that are closed one by one if the open ones cannot be listed.
const WITHOUT_PROC: libc::c_int = 65_536;

/// Gives the calling thread, and threads that it starts, a separate, empty table. There are two ways:
/// 1. `close_range` with CLOSE_RANGE_UNSHARE, from Linux 5.9 on. Docker's default filter of system calls allows it.
/// 2. `unshare`, which that filter refuses.
///
/// False if the system allows neither: the thread then keeps the program's table.
pub(super) fn own_table() -> bool {
    // All descriptors are closed, because a pipe whose write end stayed open here would never end for its reader.
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

/// Closes all descriptors, in a copy of the table if `flags` require it.
fn close_all(flags: libc::c_uint) -> bool {
    // SAFETY: closes this thread's copies, which nothing here uses.
    unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, flags) == 0 }
}

/// The same if the kernel (before 5.9) has no call for it.
fn close_each() {
    for number in open_numbers().unwrap_or_else(|| (0..WITHOUT_PROC).collect()) {
        // SAFETY: a descriptor of this thread's own table, which nothing here uses.
        unsafe { libc::close(number) };
    }
}

/// The descriptors of this thread's table. None without /proc.
fn open_numbers() -> Option<Vec<libc::c_int>> {
    let entries = std::fs::read_dir("/proc/thread-self/fd").ok()?;
    let names = entries.flatten().map(|entry| entry.file_name());
    Some(
        names
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect(),
    )
}
