//! Memory files: simulated memory that several processes can access.
//!
//! A file's name is passed with its descriptor, and describes the file. File locks show whether
//! another process still has the file. A file is handed out as a separate open file description
//! with a shared lock, which its copies in any process and their mappings keep. So its creator gets
//! an exclusive lock only when all of them are gone.

use crate::sparse::{Contents, Piece};
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// The prefix of the names of the simulator's files.
const PREFIX: &str = "gpumem-sim:";

/// A sparse file in memory of `bytes` bytes. The name can be read with [`name`].
pub fn memory_file(name: &str, bytes: u64) -> Option<OwnedFd> {
    let name = std::ffi::CString::new(format!("{PREFIX}{name}")).ok()?;
    // By its number: glibc has no function for it before 2.27, and the wheel runs on 2.17.
    // SAFETY: a terminated name; the kernel copies it.
    let file = unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), libc::MFD_CLOEXEC) };
    let file = i32::try_from(file).ok().filter(|&file| file >= 0)?;
    // SAFETY: the descriptor is new and has no other owner.
    let owned = unsafe { OwnedFd::from_raw_fd(file) };
    // SAFETY: an open descriptor.
    let sized = unsafe { libc::ftruncate(file, i64::try_from(bytes).ok()?) };
    (sized == 0).then_some(owned)
}

/// The name of a simulated driver's file; `None` for other files.
pub fn name(file: i32) -> Option<String> {
    let target = std::fs::read_link(format!("/proc/self/fd/{file}")).ok()?;
    let text = target.to_str()?.strip_prefix("/memfd:")?;
    let text = text.strip_suffix(" (deleted)").unwrap_or(text);
    Some(text.strip_prefix(PREFIX)?.to_owned())
}

/// Identifies a file by device and inode, with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Device and inode.
    pub number: (u64, u64),
    /// Bytes.
    pub bytes: u64,
    /// Whether it is an ordinary file, open for reading and writing.
    pub mappable: bool,
}

/// The file of a descriptor; `None` if it is not open.
pub fn identity(file: i32) -> Option<Identity> {
    // SAFETY: all-zero is a valid stat structure, and fstat fills it or fails.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a descriptor number (an invalid one is an error) and a local structure.
    if unsafe { libc::fstat(file, &mut stat) } != 0 {
        return None;
    }
    // SAFETY: only reads the flags of a descriptor.
    let flags = unsafe { libc::fcntl(file, libc::F_GETFL) };
    Some(Identity {
        number: (stat.st_dev, stat.st_ino),
        bytes: u64::try_from(stat.st_size).ok()?,
        mappable: stat.st_mode & libc::S_IFMT == libc::S_IFREG
            && flags & libc::O_ACCMODE == libc::O_RDWR,
    })
}

/// Opens the same file again, with the shared lock, to hand it out.
pub fn hand_out(file: i32) -> Option<OwnedFd> {
    open(Path::new(&format!("/proc/self/fd/{file}")))
}

/// Opens a file of another process, with the shared lock.
pub fn open(path: &Path) -> Option<OwnedFd> {
    let opened = OpenOptions::new().read(true).write(true).open(path).ok()?;
    lock(&opened, libc::LOCK_SH).then(|| OwnedFd::from(opened))
}

/// A copy of a caller's descriptor. The caller keeps the descriptor. The lock is shared.
pub fn duplicate(file: i32) -> Option<OwnedFd> {
    // SAFETY: an invalid descriptor is an error; a copy is new.
    let copy = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return None;
    }
    // SAFETY: the copy is new and has no other owner.
    Some(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Whether a handed-out file is still held elsewhere. For the creator's own descriptor.
pub fn is_held_elsewhere(file: &OwnedFd) -> bool {
    if !lock(file, libc::LOCK_EX) {
        return true;
    }
    lock(file, libc::LOCK_UN);
    false
}

/// Frees the memory of a range, which then reads as zeros.
pub fn punch(file: &OwnedFd, offset: u64, bytes: u64) {
    // SAFETY: an open descriptor of this library; on failure nothing changes.
    unsafe {
        libc::fallocate(
            file.as_raw_fd(),
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            offset as i64,
            bytes as i64,
        );
    }
}

/// The parts of a range that were never written, and those that were. A range that the kernel does
/// not report may contain anything.
pub fn data(file: i32, offset: u64, bytes: u64) -> Vec<Piece> {
    let end = offset.saturating_add(bytes);
    let mut pieces = Vec::new();
    let mut add = |from: u64, to: u64, contents: Contents| {
        if to > from {
            let bytes = to - from;
            pieces.push(Piece { bytes, contents });
        }
    };
    let mut at = offset;
    while at < end {
        let found = match seek(file, at, libc::SEEK_DATA) {
            Ok(found) => found.min(end),
            Err(libc::ENXIO) => end,
            Err(_) => at,
        };
        add(at, found, Contents::Zeros);
        let hole = if found < end {
            seek(file, found, libc::SEEK_HOLE).map_or(end, |hole| hole.min(end))
        } else {
            end
        };
        add(found, hole, Contents::Anything);
        at = hole;
    }
    pieces
}

fn seek(file: i32, from: u64, whence: i32) -> Result<u64, i32> {
    // SAFETY: a descriptor number; an invalid one is an error. The file position is not used.
    let found = unsafe { libc::lseek(file, from as i64, whence) };
    let failed = || std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    u64::try_from(found).map_err(|_| failed())
}

fn lock(file: &impl AsRawFd, how: i32) -> bool {
    // SAFETY: an open descriptor; LOCK_NB never waits.
    unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) == 0 }
}

/// The path under `/proc` of a process's descriptor.
pub fn path_in(pid: u64, file: u64) -> std::path::PathBuf {
    format!("/proc/{pid}/fd/{file}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_it_is_and_whether_others_have_it() {
        let file = memory_file("vmm:1", 8192).expect("a file in memory");
        let number = file.as_raw_fd();
        assert_eq!(name(number).as_deref(), Some("vmm:1"));
        assert_eq!(
            identity(number).map(|i| (i.bytes, i.mappable)),
            Some((8192, true))
        );
        assert!(!is_held_elsewhere(&file));
        let out = hand_out(number).expect("another opening");
        assert!(is_held_elsewhere(&file));
        let copy = duplicate(out.as_raw_fd()).expect("a copy");
        drop(out);
        assert!(is_held_elsewhere(&file), "a copy holds it too");
        drop(copy);
        assert!(!is_held_elsewhere(&file));
        assert_eq!(name(-1), None);
        assert_eq!(identity(-1), None);
    }

    #[test]
    fn a_mapping_holds_what_was_handed_out() {
        let file = memory_file("vmm:1", 8192).expect("a file in memory");
        let out = hand_out(file.as_raw_fd()).expect("another opening");
        let at = crate::host::map(8192, 4096, crate::host::Access::None).expect("address space");
        assert!(crate::host::map_file_over(at, 8192, out.as_raw_fd(), 0));
        drop(out);
        assert!(is_held_elsewhere(&file));
        crate::host::unmap(at, 8192);
        assert!(!is_held_elsewhere(&file));
    }
}
