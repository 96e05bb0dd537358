//! A table of file descriptors of a thread's own.
//!
//! Programs close descriptors that they did not open (daemons, `closefrom`) and open others under the same numbers. What
//! a thread with a table of its own has open is not concerned, and what it opens no program can meet.

/// Gives the calling thread, and threads that it starts, a table of their own, with nothing in it. False where the
/// system does not allow it (Docker's filter of system calls): the table then stays the program's.
pub(super) fn own_table() -> bool {
    // SAFETY: the call concerns the calling thread alone.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return false;
    }
    // A pipe whose end stayed open here would never end for whoever reads it.
    // SAFETY: closes this thread's copies.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
    if closed != 0 {
        close_each();
    }
    true
}

/// The same where the kernel (before 5.9) has no call for it.
fn close_each() {
    let Ok(entries) = std::fs::read_dir("/proc/thread-self/fd") else {
        return;
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let numbers: Vec<i32> = names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    for number in numbers {
        // SAFETY: a descriptor of this thread's own table, which nothing here uses.
        unsafe { libc::close(number) };
    }
}
