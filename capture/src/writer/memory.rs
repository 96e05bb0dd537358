//! The memory of the ring: shared with other processes, and kept when the process is killed.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, RawFd};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use gpumem_sys::raw;

use super::file::{CaptureFile, file_size_limit};
use super::head::Head;
use super::options::RingPlace;
use super::sys;
use crate::header::{RingAt, RingPath};
use crate::layout;
use crate::ring::Slot;
use crate::ring_file::{self, NAME_PREFIX};
use crate::slot::SLOT_BYTES;

/// `statfs`'s magic numbers of file systems in memory.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// The smallest page of any machine.
const PAGE: usize = 4096;

/// Slots that have memory from the start: the others get it as they are used.
const FIRST_SLOTS: u64 = 8_192;

/// Mapped memory that is never unmapped.
pub(super) struct Memory {
    pub(super) base: *mut u8,
    /// Bytes of the head and the ring that have memory from the start.
    backed_bytes: usize,
    /// Bytes of the head and the ring.
    pub(super) ring_bytes: usize,
    /// Bytes of the queue after them; 0 without a queue.
    pub(super) queue_bytes: usize,
    pub(super) at: RingAt,
    /// The descriptor of unnamed memory, in the table of the thread that created it.
    memfd: Option<RawFd>,
    /// A part of it is memory that ends with the process, because there was no other.
    pub(super) is_partly_private: AtomicBool,
    /// Whether another process can map it.
    pub(super) is_shared: bool,
    /// Why an earlier place was not used.
    pub(super) fell_back: Option<String>,
}

// SAFETY: the memory is reached through atomics, and by the queue under its lock.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory for a ring of that many slots and a queue of that many bytes after it.
    pub(super) fn create(place: &RingPlace, slots: u32, queue: usize) -> io::Result<Self> {
        let ring_bytes = usize::try_from(layout::ring_end(slots))
            .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let _guard = sys::no_file_size_signal();
        // A file in memory is subject to the same limit as a file on a disk.
        let most = usize::try_from(file_size_limit()).unwrap_or(usize::MAX);
        let queue_bytes = queue.min(most.saturating_sub(ring_bytes)) & !4095;
        let mut memory = Self {
            base: core::ptr::null_mut(),
            backed_bytes: ring_bytes,
            ring_bytes,
            queue_bytes,
            at: RingAt::Nowhere,
            memfd: None,
            is_partly_private: AtomicBool::new(false),
            is_shared: true,
            fell_back: None,
        };
        if let RingPlace::Folders(folders) = place {
            for folder in folders {
                match memory.in_folder(folder) {
                    Ok(()) => return Ok(memory),
                    Err(error) => {
                        let why = format!("{}: {error}", folder.display());
                        memory.fell_back.get_or_insert(why);
                    }
                }
            }
        }
        if matches!(place, RingPlace::Folders(_) | RingPlace::Memfd) {
            match memory.in_memfd() {
                Ok(()) => return Ok(memory),
                Err(error) => {
                    let why = format!("memfd: {error}");
                    memory.fell_back.get_or_insert(why);
                }
            }
        }
        memory.queue_bytes = queue & !4095;
        memory.is_shared = false;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        memory.map(-1, flags)?;
        Ok(memory)
    }

    /// The head and the ring of a capture that holds them, which has no queue.
    pub(super) fn in_capture(file: &CaptureFile, slots: u32) -> io::Result<Self> {
        let ring_bytes = usize::try_from(layout::ring_end(slots))
            .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let mut memory = Self {
            base: core::ptr::null_mut(),
            backed_bytes: ring_bytes,
            ring_bytes,
            queue_bytes: 0,
            at: RingAt::Capture,
            memfd: None,
            is_partly_private: AtomicBool::new(false),
            is_shared: true,
            fell_back: None,
        };
        // Mapped at once, for reading: the drain makes it writable.
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        file.with(0, |file| memory.map(file.as_raw_fd(), flags))?;
        Ok(memory)
    }

    /// The head and the slots.
    pub(super) fn parts(&self, slots: u32) -> (&'static Head, &'static [Slot]) {
        // SAFETY: `ring_bytes` bytes are mapped, readable and writable, and never unmapped. `Head` covers the first
        // RING_OFFSET of them, the slots the rest, both aligned (a page; RING_OFFSET is a multiple of 64). Both
        // consist of atomics, for which any bits are valid, even if other processes store them. A range that is taken
        // away is replaced by private memory ([`super::Ended::MemoryGone`]).
        unsafe {
            let ring = self.base.add(layout::RING_OFFSET as usize).cast::<Slot>();
            (
                &*self.base.cast::<Head>(),
                core::slice::from_raw_parts(ring, slots as usize),
            )
        }
    }

    /// In a new file that no other user can name in advance, open or read.
    fn in_folder(&mut self, folder: &Path) -> io::Result<()> {
        let name = format!("{NAME_PREFIX}{:016x}{:016x}", sys::random(), sys::random());
        let path = folder.join(name);
        let at = RingPath::new(&path).ok_or(io::Error::from_raw_os_error(libc::ENAMETOOLONG))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
            .mode(0o600)
            .open(&path)?;
        let made = is_in_memory(&file, self.ring_bytes).and_then(|()| self.reserve_and_map(&file));
        if let Err(error) = made {
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        self.at = RingAt::File(at);
        Ok(())
    }

    /// In a file without a name, which no other process can truncate.
    fn in_memfd(&mut self) -> io::Result<()> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // By its number: glibc has no function for it before 2.27, and the wheel runs on 2.17.
        // SAFETY: the name is NUL-terminated; the call touches no memory of ours.
        let fd = unsafe { libc::syscall(libc::SYS_memfd_create, c"gpumem-ring".as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was opened just now, for us alone.
        let file = unsafe { File::from_raw_fd(fd as i32) };
        // Otherwise other users could open it through /proc.
        file.set_permissions(Permissions::from_mode(0o600))?;
        self.reserve_and_map(&file)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: the descriptor is open; a seal that is refused is done without.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
        // Readers of a running capture find it by this descriptor.
        self.memfd = Some(file.into_raw_fd());
        self.at = RingAt::Memfd;
        Ok(())
    }

    /// The memory as a file, for another process to hold open. None if it has no separate file. Must be called by the
    /// thread that created it.
    pub(super) fn handle(&self) -> Option<io::Result<File>> {
        match (&self.at, self.memfd) {
            (RingAt::File(at), _) => Some(
                OpenOptions::new()
                    .read(true)
                    .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
                    .open(at.path()),
            ),
            (_, Some(fd)) => {
                // Opened again, so that the holder of the descriptor does not hold the lock.
                if let Ok(file) = File::open(format!("/proc/thread-self/fd/{fd}")) {
                    return Some(Ok(file));
                }
                // SAFETY: the call touches no memory of ours; what it returns is a new descriptor, or -1.
                match unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) } {
                    -1 => Some(Err(io::Error::last_os_error())),
                    // SAFETY: made just now, for us alone.
                    new => Some(Ok(unsafe { File::from_raw_fd(new) })),
                }
            }
            _ => None,
        }
    }

    fn reserve_and_map(&mut self, file: &File) -> io::Result<()> {
        file.set_len((self.ring_bytes + self.queue_bytes) as u64)?;
        // The memory of these slots is allocated from now on, so no store to them can fail. That of the others and the
        // queue's is allocated before they are used.
        let first = (layout::RING_OFFSET + FIRST_SLOTS * SLOT_BYTES as u64) as usize;
        let backed = first.min(self.ring_bytes);
        // SAFETY: the descriptor is open; the call touches no memory of ours.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, backed as libc::off_t) } {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        ring_file::lock(file);
        self.map(file.as_raw_fd(), libc::MAP_SHARED)?;
        self.backed_bytes = backed;
        Ok(())
    }

    /// The slots that have memory from the start.
    pub(super) fn backed_slots(&self) -> u64 {
        (self.backed_bytes as u64 - layout::RING_OFFSET) / SLOT_BYTES as u64
    }

    /// The address of a slot.
    fn slot(&self, slot: u64) -> *mut u8 {
        self.base
            .wrapping_add(layout::RING_OFFSET as usize + slot as usize * SLOT_BYTES)
    }

    /// Takes memory for slots that nobody uses yet, whole pages. They stay zeros at each moment, because the process may
    /// be killed.
    pub(super) fn back_slots(&self, slots: core::ops::Range<u64>) -> io::Result<()> {
        let pages = slots.step_by(PAGE / SLOT_BYTES);
        for page in pages.map(|slot| self.slot(slot).cast::<u64>()) {
            if !is_backed(page) {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            // SAFETY: an aligned word of our own mapping, which has memory.
            let word = unsafe { AtomicU64::from_ptr(page) };
            // The kernel maps the page read-only at first; after this, stores to it do not fault.
            let _ = word.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Replaces the slots from `first` on, which nobody uses yet, by memory of this process.
    pub(super) fn make_slots_private(&self, first: u64) -> io::Result<()> {
        self.make_private(self.slot(first), self.queue())
    }

    /// Replaces a part that nobody uses yet, because there is no memory for it, and removes the file: it would lack that
    /// part after the end of this process. For processes that have it open, it is marked.
    fn make_private(&self, from: *mut u8, end: *mut u8) -> io::Result<()> {
        // SAFETY: the call touches no memory of ours.
        if unsafe { libc::sysconf(libc::_SC_PAGESIZE) } != PAGE as libc::c_long {
            // A larger page may also have a part that is in use.
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        if self.is_cut() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let bytes = end as usize - from as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: whole pages of our own mapping, of which nobody wants the contents.
        let made = unsafe { libc::mmap(from.cast(), bytes, protection, flags, -1, 0) };
        if made == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if !self.is_partly_private.swap(true, Ordering::SeqCst) {
            self.mark_if_partial();
            if let RingAt::File(at) = &self.at {
                let _ = std::fs::remove_file(at.path());
            }
        }
        Ok(())
    }

    /// Whether somebody has truncated the ring's file. False if it has no name any more.
    pub(super) fn is_cut(&self) -> bool {
        let RingAt::File(at) = &self.at else {
            return false;
        };
        let bytes = (self.ring_bytes + self.queue_bytes) as u64;
        std::fs::metadata(at.path()).is_ok_and(|file| file.len() < bytes)
    }

    /// Marks the file if it lacks a part. Called after each of the two has changed: what the file is according to its
    /// first bytes, and whether it lacks a part.
    pub(super) fn mark_if_partial(&self) {
        fence(Ordering::SeqCst);
        if self.is_partly_private.load(Ordering::SeqCst) {
            // SAFETY: the first word of the head, which consists of atomics.
            let magic = unsafe { AtomicU64::from_ptr(self.base.cast()) };
            magic.store(u64::from_le_bytes(ring_file::PARTIAL), Ordering::SeqCst);
        }
    }

    fn map(&mut self, fd: i32, flags: i32) -> io::Result<()> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let bytes = self.ring_bytes + self.queue_bytes;
        // SAFETY: a new mapping that overlaps nothing.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.base = base.cast();
        Ok(())
    }

    /// The queue's memory.
    pub(super) fn queue(&self) -> *mut u8 {
        // SAFETY: the queue lies behind the ring, within the mapping.
        unsafe { self.base.add(self.ring_bytes) }
    }

    /// Ensures that `bytes` of the queue from `from` on, which is not in use from there on, have memory: that of this
    /// process, if there is no other.
    pub(super) fn commit(&self, from: usize, bytes: usize) -> io::Result<()> {
        let place = from & !(PAGE - 1);
        let (start, bytes) = (self.queue().wrapping_add(place), from + bytes - place);
        back(start, bytes).or_else(|_| {
            self.make_private(start, self.queue().wrapping_add(self.queue_bytes))?;
            back(start, bytes)
        })
    }

    /// Returns the memory of the queue from `from` on to the system.
    pub(super) fn discard(&self, from: usize) {
        // The first only for shared memory, the second only for private memory: a part of it may be.
        for advice in [libc::MADV_REMOVE, libc::MADV_DONTNEED] {
            if from < self.queue_bytes {
                // SAFETY: the range belongs to the queue, which is empty, and begins at a page.
                unsafe {
                    let place = self.queue().add(from).cast();
                    libc::madvise(place, self.queue_bytes - from, advice);
                }
            }
        }
    }
}

/// Whether the page of a word of a file has memory: if not, takes some. A load of a page that cannot get any would raise
/// SIGBUS; a system call that loads it returns EFAULT instead. This one has no effect otherwise, because that request does
/// not exist.
fn is_backed(word: *const u64) -> bool {
    let arguments = [usize::MAX, word as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the kernel reads a word of our own mapping, or answers EFAULT.
    let done = unsafe { raw::call(libc::SYS_rt_sigprocmask, arguments) };
    done != -(libc::EFAULT as isize)
}

/// Ensures that the pages of `bytes` from `from` on, the start of a page, have memory; changes the first 16 bytes of each. A
/// store to a page of a file without free memory would raise SIGBUS; a system call that stores there returns an error instead.
fn back(from: *mut u8, bytes: usize) -> io::Result<()> {
    for page in (0..bytes).step_by(PAGE) {
        let place = from.wrapping_add(page);
        let arguments = [libc::CLOCK_MONOTONIC as usize, place as usize, 0, 0, 0, 0];
        // SAFETY: a page of our own mapping, which its caller alone uses; the kernel stores 16 bytes or answers EFAULT.
        let done = unsafe { raw::call(libc::SYS_clock_gettime, arguments) };
        if done != 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
    }
    Ok(())
}

/// Whether the file is in memory, not on a disk, with room for `bytes`.
fn is_in_memory(file: &File, bytes: usize) -> io::Result<()> {
    // SAFETY: an all-zero structure is valid memory for the call to fill.
    let mut found: libc::statfs = unsafe { core::mem::zeroed() };
    // SAFETY: the descriptor is open, the structure valid for writing.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if !IN_MEMORY.contains(&found.f_type) {
        return Err(io::Error::other("it does not lie in memory"));
    }
    // A file system without a limit has 0 blocks.
    let free = found.f_bavail.saturating_mul(found.f_bsize as u64);
    match found.f_blocks == 0 || free >= bytes as u64 {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
    }
}
