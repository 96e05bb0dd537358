//! The file under a capture: created once, its head mapped for ever.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::head::Head;
use super::options::CreateError;
use super::sys::NoFileSizeSignal;
use crate::layout;
use crate::ring::Slot;

/// The file, and how to know it again.
pub(super) struct CaptureFile {
    path: PathBuf,
    identity: (u64, u64),
    /// None once the host has closed it under us and it could not be opened again. Only the drain
    /// waits for it.
    file: Mutex<Option<File>>,
}

/// The head, mapped.
pub(super) struct Mapped {
    pub(super) head: &'static Head,
    pub(super) slots: &'static [Slot],
}

impl CaptureFile {
    /// Creates the file with its head's blocks reserved and zero.
    ///
    /// `length` bytes are reserved, which the head and the ring are the first of.
    pub(super) fn create(
        path: &Path,
        ring_slots: u32,
        length: u64,
    ) -> Result<(Self, Mapped), CreateError> {
        let error = |action| {
            move |source| CreateError {
                path: path.to_owned(),
                action,
                source,
            }
        };
        // The program may change its directory while we run.
        let path = std::path::absolute(path).map_err(error("find"))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
            .mode(0o666)
            .open(&path)
            .and_then(above_standard_streams)
            .map_err(error("create"))?;
        let mapped = reserve(&file, length)
            .map_err(error("reserve space for"))
            .and_then(|()| map(&file, ring_slots).map_err(error("map")))
            .and_then(|mapped| {
                let metadata = file.metadata().map_err(error("examine"))?;
                Ok((mapped, (metadata.dev(), metadata.ino())))
            });
        match mapped {
            Ok((mapped, identity)) => Ok((
                Self {
                    path,
                    identity,
                    file: Mutex::new(Some(file)),
                },
                mapped,
            )),
            Err(error) => {
                // It is ours, empty, and of no use to anyone; that it stays is no second error.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file has no name any more: with this process it is gone. False where that cannot be
    /// told now.
    pub(super) fn is_deleted(&self) -> bool {
        let Ok(slot) = self.file.try_lock() else {
            return false;
        };
        let found = slot.as_ref().and_then(|file| file.metadata().ok());
        found.is_some_and(|found| (found.dev(), found.ino()) == self.identity && found.nlink() == 0)
    }

    /// Writes bytes at an offset, whole, or says why not. Never raises SIGXFSZ.
    ///
    /// Programs that become daemons close every descriptor and open others under the same numbers:
    /// before each write the descriptor is compared with the file that was created.
    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let _guard = NoFileSizeSignal::new();
        if offset + bytes.len() as u64 > file_size_limit() {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let mut slot = self
            .file
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_ours = |file: &File| {
            file.metadata()
                .is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
        };
        if !slot.as_ref().is_some_and(is_ours) {
            // The number is someone else's now: forget it without closing it.
            if let Some(file) = slot.take() {
                let _ = std::os::fd::IntoRawFd::into_raw_fd(file);
            }
            let again = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK)
                .open(&self.path)?;
            if !is_ours(&again) {
                return Err(io::Error::from_raw_os_error(libc::ESTALE));
            }
            *slot = Some(again);
        }
        match slot.as_ref() {
            Some(file) => file.write_all_at(bytes, offset),
            None => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }
}

/// The same file under a descriptor above 2. A program that has closed its stderr gets the number 2 for
/// the next file it opens; if that were ours, whatever it then says on stderr would land in the capture.
fn above_standard_streams(file: File) -> io::Result<File> {
    // The standard library duplicates to 3 and above.
    if file.as_raw_fd() < 3 {
        file.try_clone()
    } else {
        Ok(file)
    }
}

/// Reserves the first `length` bytes, so that no store to the mapping can ever meet a full disk.
fn reserve(file: &File, length: u64) -> io::Result<()> {
    let _guard = NoFileSizeSignal::new();
    if length > file_size_limit() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    loop {
        // SAFETY: the descriptor is open; the call touches no memory of ours.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length as libc::off_t) } {
            0 => return Ok(()),
            libc::EINTR => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// RLIMIT_FSIZE in force now.
fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writing.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

/// Maps the head and the ring, for ever.
fn map(file: &File, ring_slots: u32) -> io::Result<Mapped> {
    let length = usize::try_from(layout::pages_offset(ring_slots))
        .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    // SAFETY: a new mapping of an open file; it overlaps nothing.
    let base = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            // Mapped at once, for reading: the drain sees to it that it can be written to.
            libc::MAP_SHARED | libc::MAP_POPULATE,
            file.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `length` bytes are mapped, readable and writable, and never unmapped. `Head` covers the
    // first RING_OFFSET of them, the slots the rest, both aligned (a page; RING_OFFSET is a multiple
    // of 64). Both consist of atomics and unread padding, for which zeros are valid; other processes
    // only read the file (the format's rule), and nobody else has this fresh file's name.
    let (head, slots) = unsafe {
        let ring = base.byte_add(layout::RING_OFFSET as usize).cast::<Slot>();
        (
            &*base.cast::<Head>(),
            core::slice::from_raw_parts(ring, ring_slots as usize),
        )
    };
    Ok(Mapped { head, slots })
}
