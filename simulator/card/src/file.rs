//! The file that processes share, and its layout.
//!
//! ```text
//!  0      magic, 8 bytes, written after everything else
//!  64     lock
//!  128    number of rows that were ever used, 4 bytes
//!  4096   rows: pid 4, unused 4, start time 8, start of stack 8, bytes by unit 8 × UNITS
//! ``` Numbers are in native byte order: the file is not meant to be kept. It is 4 MiB long and
//! sparse.

use crate::lock::Lock;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Cards and parts of cards that the table has room for.
pub const UNITS: usize = 512;

/// Most processes that can have memory at once.
pub(crate) const ROWS: usize = 1024;

const MAGIC: u64 = u64::from_le_bytes(*b"gpucard1");

/// One process's memory. A row with pid 0 is unused.
#[repr(C)]
pub(crate) struct Row {
    pub(crate) pid: AtomicU32,
    unused: AtomicU32,
    pub(crate) started: AtomicU64,
    pub(crate) stack: AtomicU64,
    pub(crate) bytes: [AtomicU64; UNITS],
}

/// The whole file.
#[repr(C)]
pub(crate) struct Layout {
    head: Head,
    pub(crate) rows: [Row; ROWS],
}

#[repr(C, align(4096))]
struct Head {
    magic: AtomicU64,
    lock: Lock,
    used: AtomicU32,
}

impl Layout {
    pub(crate) fn lock(&self) -> &Lock {
        &self.head.lock
    }

    /// Rows that were ever used; all others are empty.
    pub(crate) fn used(&self) -> &AtomicU32 {
        &self.head.used
    }
}

/// Maps the file, creating it if it does not exist. The mapping stays for the life of the process;
/// the descriptor is closed.
///
/// # Errors
/// Those of the file system; `InvalidData` if the file has another format.
pub(crate) fn map(path: &Path) -> io::Result<&'static Layout> {
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    // The first process creates the table; the others wait.
    let _turn = Turn::wait(&file)?;
    let whole = size_of::<Layout>();
    let length = file.metadata()?.len();
    if length == 0 {
        file.set_len(whole as u64)?;
    } else if length != whole as u64 {
        return Err(not_ours());
    }
    // SAFETY: a fresh mapping of a file of this length.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            whole,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is as large as the layout, page-aligned, never unmapped, and every bit
    // pattern is a valid atomic; the lock is initialised below before it is used.
    let layout = unsafe { &*start.cast::<Layout>() };
    match layout.head.magic.load(Ordering::Acquire) {
        MAGIC => {}
        0 => {
            // SAFETY: the file's lock keeps other processes waiting, and no process uses a table
            // without the magic.
            unsafe { layout.head.lock.initialise()? };
            layout.head.magic.store(MAGIC, Ordering::Release);
        }
        _ => return Err(not_ours()),
    }
    Ok(layout)
}

/// The file's own lock. It is unlocked explicitly: a child that another thread has just forked has
/// the descriptor, too.
struct Turn<'a>(&'a File);

impl<'a> Turn<'a> {
    fn wait(file: &'a File) -> io::Result<Self> {
        // SAFETY: a descriptor that is open.
        match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } {
            0 => Ok(Self(file)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // SAFETY: likewise.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

fn not_ours() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a file of simulated cards")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_table_above() {
        assert_eq!(std::mem::offset_of!(Layout, rows), 4096);
        assert_eq!(std::mem::offset_of!(Row, bytes), 24);
        assert_eq!(std::mem::offset_of!(Head, lock), 64);
        assert_eq!(std::mem::offset_of!(Head, used), 128);
    }

    #[test]
    fn another_file_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, bytes) in [("short", 5), ("long", size_of::<Layout>())] {
            let path = folder.path().join(name);
            std::fs::write(&path, vec![7; bytes]).expect("a file");
            let refused = map(&path).err().map(|error| error.kind());
            assert_eq!(refused, Some(io::ErrorKind::InvalidData), "{name}");
            assert_eq!(std::fs::read(&path).expect("a file"), vec![7; bytes]);
        }
        assert!(map(&folder.path().join("missing/file")).is_err());
    }
}
