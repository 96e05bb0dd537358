//! The capture's file: created once, written at offsets. Callers of this module may wait for a disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use super::error::CreateError;
use super::sys;
use crate::file::fill;
use crate::layout::{self, STATIC_BYTES};

/// Nothing was cut off.
const WHOLE: u64 = u64::MAX;

/// The file, and its identity.
pub(super) struct CaptureFile {
    path: PathBuf,
    identity: (u64, u64),
    /// The static header, once it is written.
    start: OnceLock<[u8; STATIC_BYTES]>,
    /// The length that the file has if no other program truncates it.
    length: AtomicU64,
    /// The least length that was seen below that; [`WHOLE`] otherwise.
    cut: AtomicU64,
    /// None once the program has closed it and it could not be opened again. Only the thread that writes waits for it.
    file: Mutex<Option<File>>,
}

impl CaptureFile {
    /// Creates the file, and reserves `length` bytes for it.
    pub(super) fn create(path: &Path, length: u64) -> Result<Self, CreateError> {
        let error = |action| {
            move |source| CreateError {
                path: path.to_owned(),
                action,
                source,
            }
        };
        // The program may change its working directory later.
        let path = std::path::absolute(path).map_err(error("find"))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
            .mode(0o600)
            .open(&path)
            .map_err(error("create"))?;
        let examined = above_standard_streams(file)
            .map_err(error("create"))
            .and_then(|file| {
                reserve(&file, length).map_err(error("reserve space for"))?;
                let metadata = file.metadata().map_err(error("examine"))?;
                Ok((file, metadata))
            });
        match examined {
            Ok((file, metadata)) => Ok(Self {
                path,
                identity: (metadata.dev(), metadata.ino()),
                start: OnceLock::new(),
                length: AtomicU64::new(metadata.len()),
                cut: AtomicU64::new(WHOLE),
                file: Mutex::new(Some(file)),
            }),
            Err(error) => {
                // The file is ours and empty; a failure to remove it is not reported as a second error.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file has no name any more, so that it disappears with this process. False where that cannot be
    /// determined now.
    pub(super) fn is_deleted(&self) -> bool {
        let Ok(slot) = self.file.try_lock() else {
            return false;
        };
        let found = slot.as_ref().and_then(|file| file.metadata().ok());
        found.is_some_and(|found| (found.dev(), found.ino()) == self.identity && found.nlink() == 0)
    }

    /// Writes all bytes at an offset, or returns an error. Never raises SIGXFSZ.
    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        self.with(end, |file| file.write_all_at(bytes, offset))?;
        self.length.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    /// Writes both copies of the static header, which make it a capture.
    pub(super) fn write_start(&self, bytes: [u8; STATIC_BYTES]) -> io::Result<()> {
        let bytes = self.start.get_or_init(|| bytes);
        layout::STATIC_COPIES
            .into_iter()
            .try_for_each(|offset| self.write_at(bytes, offset))
    }

    /// The length to which another program has truncated the file since the last call, if one has; for one that was
    /// overwritten, 0. The static header is whole again. To compare the length takes one system call; it is also
    /// compared before each write.
    pub(super) fn take_cut(&self) -> io::Result<Option<u64>> {
        self.with(0, |_| Ok(()))?;
        let cut = self.cut.swap(WHOLE, Ordering::Relaxed);
        if cut < WHOLE {
            self.mend_start()?;
        }
        Ok((cut < WHOLE).then_some(cut))
    }

    /// Writes the copies of the static header that are not there; true if there was one.
    pub(super) fn mend_start(&self) -> io::Result<bool> {
        let Some(start) = self.start.get() else {
            return Ok(false);
        };
        let mut is_mended = false;
        for offset in layout::STATIC_COPIES {
            let mut there = [0; STATIC_BYTES];
            self.read_at(&mut there, offset)?;
            if there != *start {
                self.write_at(start, offset)?;
                is_mended = true;
            }
        }
        Ok(is_mended)
    }

    /// Fills `bytes` from an offset; what the file does not have is zeros.
    pub(super) fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(0, |file| fill(file, offset, bytes).map(drop))
    }

    /// Truncates the file to `length`.
    pub(super) fn cut_to(&self, length: u64) -> io::Result<()> {
        self.with(length, |file| file.set_len(length))?;
        self.length.store(length, Ordering::Relaxed);
        Ok(())
    }

    /// Frees the blocks of a range, which then reads as zeros.
    pub(super) fn punch(&self, range: std::ops::Range<u64>) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (start, bytes) = (
            range.start as libc::off_t,
            (range.end - range.start) as libc::off_t,
        );
        self.with(0, |file| {
            // SAFETY: the descriptor is open; the call touches no memory of ours.
            match unsafe { libc::fallocate(file.as_raw_fd(), mode, start, bytes) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        })
    }

    /// Runs `body` on the file, which must have room for `end` bytes.
    ///
    /// Programs that become daemons close every descriptor and open others under the same numbers. A thread with a
    /// separate descriptor table is not affected. Where the system does not support that, the descriptor is compared
    /// with the created file before each use, which leaves a short time between the two.
    pub(super) fn with<R>(
        &self,
        end: u64,
        body: impl FnOnce(&File) -> io::Result<R>,
    ) -> io::Result<R> {
        let _guard = sys::no_file_size_signal();
        if end > file_size_limit() {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let mut slot = self
            .file
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_ours = |file: &File| {
            file.metadata().is_ok_and(|found| {
                let is_ours = (found.dev(), found.ino()) == self.identity;
                if is_ours && found.len() < self.length.load(Ordering::Relaxed) {
                    self.cut.fetch_min(found.len(), Ordering::Relaxed);
                    self.length.store(found.len(), Ordering::Relaxed);
                }
                is_ours
            })
        };
        if !slot.as_ref().is_some_and(is_ours) {
            // The number belongs to another file now: forget it without closing it.
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
            Some(file) => body(file),
            None => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }
}

/// The same file under a descriptor above 2. A program that has closed its stderr gets the number 2 for the next file
/// it opens. If that were ours, its stderr output would be written to the capture.
fn above_standard_streams(file: File) -> io::Result<File> {
    if file.as_raw_fd() >= 3 {
        return Ok(file);
    }
    // The standard library duplicates to 3 and above, which is an invalid number under a limit of 3.
    file.try_clone()
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => io::Error::from_raw_os_error(libc::EMFILE),
            _ => error,
        })
}

/// Reserves the first `length` bytes.
fn reserve(file: &File, length: u64) -> io::Result<()> {
    let _guard = sys::no_file_size_signal();
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

/// The current RLIMIT_FSIZE.
pub(super) fn file_size_limit() -> u64 {
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
