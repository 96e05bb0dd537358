//! The task of the thread that writes the file, from the options.

use core::fmt::Display;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use gpumem_capture::{Options as CaptureOptions, RingPlace};

use crate::options::{Options, Ring};

/// How long a call may wait for room in the ring, until the drain gets a processor.
const FOR_ROOM: Duration = Duration::from_millis(50);

/// The task of the thread that writes the file.
pub(super) struct Job {
    /// The capture's path, unless that is taken, or the folder for it.
    pub(super) wanted: PathBuf,
    /// Its name in a folder.
    pub(super) name: PathBuf,
    /// The list that its path is added to.
    pub(super) list: Option<OsString>,
    /// The process that must hold the ring open.
    pub(super) holder: Option<OsString>,
    pub(super) capture: CaptureOptions,
    pub(super) is_bounded: bool,
}

impl Job {
    pub(super) fn new((wanted, name): (PathBuf, PathBuf), options: &Options) -> Self {
        let capture = CaptureOptions::default()
            .ring_slots(options.ring_slots)
            .bounded(options.bounded);
        let capture = match &options.ring {
            Ring::File => capture,
            Ring::Memory => capture.ring(RingPlace::Folders(folders())).stall(FOR_ROOM),
            Ring::Folder(folder) => {
                let folders = vec![PathBuf::from(folder)];
                capture.ring(RingPlace::Folders(folders)).stall(FOR_ROOM)
            }
            Ring::Memfd => capture.ring(RingPlace::Memfd).stall(FOR_ROOM),
        };
        Self {
            wanted,
            name,
            list: options.list.clone(),
            holder: options.holder.clone(),
            is_bounded: options.bounded.is_some(),
            capture,
        }
    }

    /// The message if no capture can be created. `errno`: the system's error, or 0.
    pub(super) fn refused(&self, error: &dyn Display, errno: i32) -> String {
        let advice = match errno {
            libc::EMFILE => " Raise the limit on open files (ulimit -n).",
            libc::ENFILE => " The machine has too many open files.",
            libc::EFBIG => " Raise the limit on the size of files (ulimit -f).",
            libc::ENOMEM => " The program may use too little memory (ulimit -v).",
            0 | libc::EINVAL | libc::ENOSPC | libc::EDQUOT if self.is_bounded => {
                " Set GPUMEM_OUTPUT to a writable path, and GPUMEM_BOUNDED to a size that fits the disk and the ring."
            }
            errno if depends_on_the_path(errno) => " Set GPUMEM_OUTPUT to a writable path.",
            // Another path would not help: a refused system call, for example.
            _ => "",
        };
        format!("cannot write a capture: {error}. Recording is off; the program continues.{advice}")
    }
}

/// Whether another path may avoid the error. 0: all names of the path are taken.
fn depends_on_the_path(errno: i32) -> bool {
    [
        0,
        libc::EACCES,
        libc::EPERM,
        libc::EROFS,
        libc::ENOENT,
        libc::ENOTDIR,
        libc::EISDIR,
        libc::ELOOP,
        libc::ENAMETOOLONG,
        libc::ENOSPC,
        libc::EDQUOT,
        libc::EIO,
        libc::EOPNOTSUPP,
        libc::ETXTBSY,
    ]
    .contains(&errno)
}

/// Folders that are in memory on most machines.
fn folders() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let folders = [Some(OsString::from("/dev/shm")), runtime];
    folders.into_iter().flatten().map(PathBuf::from).collect()
}
