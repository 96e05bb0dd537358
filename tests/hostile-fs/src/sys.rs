//! Functions of the C library that the standard library lacks.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

fn result(status: libc::c_int) -> io::Result<()> {
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// `fallocate` of an open file.
pub fn fallocate(file: &File, mode: i32, offset: u64, length: u64) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call touches no memory.
    result(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, length as i64) })
}

/// `renameat2` of whole paths.
pub fn rename(old: &Path, new: &Path, flags: u32) -> io::Result<()> {
    let (old, new) = (text(old)?, text(new)?);
    // SAFETY: both are strings that end with NUL and outlive the call.
    result(unsafe {
        libc::renameat2(
            libc::AT_FDCWD,
            old.as_ptr(),
            libc::AT_FDCWD,
            new.as_ptr(),
            flags,
        )
    })
}

/// Makes a hard link to the target of `old`, a link in /proc.
pub fn link(old: &Path, new: &Path) -> io::Result<()> {
    let (old, new) = (text(old)?, text(new)?);
    let flags = libc::AT_SYMLINK_FOLLOW;
    // SAFETY: both are strings that end with NUL and outlive the call.
    result(unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            old.as_ptr(),
            libc::AT_FDCWD,
            new.as_ptr(),
            flags,
        )
    })
}

/// Figures of the file system that contains a file.
pub fn statvfs(file: &File) -> io::Result<libc::statvfs> {
    // SAFETY: plain numbers, for which zeros are valid.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `found` valid for writing.
    result(unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut found) })?;
    Ok(found)
}

/// Clears the umask, so that files get exactly the requested permissions.
pub fn clear_umask() {
    // SAFETY: changes only a number of this process.
    unsafe { libc::umask(0) };
}

/// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those that it starts, so that `wait_for_end` gets them.
pub fn block_ends() -> io::Result<()> {
    let set = ends();
    // SAFETY: `set` is initialized; the old mask is not requested.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Waits for one of the signals of `block_ends`.
pub fn wait_for_end() {
    let (set, mut signal) = (ends(), 0);
    // SAFETY: both are valid and the signals are blocked in every thread.
    unsafe { libc::sigwait(&raw const set, &raw mut signal) };
}

fn ends() -> libc::sigset_t {
    // SAFETY: `sigemptyset` initializes the set that the other calls change; the signals exist.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// Unmounts, even with open files.
pub fn unmount(path: &Path) -> io::Result<()> {
    let path = text(path)?;
    // SAFETY: a string that ends with NUL and outlives the call.
    result(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) })
}
