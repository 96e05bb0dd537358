//! Finds the ring of a capture that does not hold it, and verifies that it belongs to the capture.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::header::{RingAt, StaticHeader};
use crate::layout;
use crate::namespaces::Namespaces;
use crate::procfs;
use crate::ring_file::{
    self, HEADER_OFFSET, MAGIC, PARTIAL, PATH_BYTES, VERSION, is_locked, preamble_crc,
};

/// The name in /proc of a ring in unnamed memory.
const MEMFD: &str = "/memfd:gpumem-ring (deleted)";

/// A verified file of a ring.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) file: File,
    pub(crate) queue_bytes: u64,
    /// The capture's path in the recorded process.
    pub(crate) capture: Vec<u8>,
    pub(crate) header: StaticHeader,
    /// The namespaces of its process, if known.
    namespaces: Option<Namespaces>,
    /// The user who owns the file.
    pub(crate) owner: u32,
}

/// The ring of the capture with this header, whose file belongs to the user `owner`. `Ok(None)`: no such file; `Err`:
/// why the existing file is rejected.
pub(crate) fn find(header: &StaticHeader, owner: u32) -> Result<Option<Ring>, String> {
    match &header.ring_at {
        // A capture chooses the path: without a ring's name, or of another boot, no file is looked for.
        RingAt::File(path) if is_of_this_boot(header) && is_ring(path.path()) => {
            match open(path.path(), owner)? {
                Some(ring) => ring.of(header).map(Some),
                None => Ok(None),
            }
        }
        RingAt::File(_) => Ok(None),
        RingAt::Memfd => Ok(of_process(header, owner)),
        RingAt::Capture | RingAt::Nowhere => Ok(None),
    }
}

/// The ring that a running process keeps in unnamed memory: one of its file descriptors. The descriptor table is that
/// of the thread that created it.
fn of_process(header: &StaticHeader, owner: u32) -> Option<Ring> {
    if !procfs::is_running(header.pid, header.process_start_ticks) {
        return None;
    }
    let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
    entries(PathBuf::from(format!("/proc/{}/task", header.pid)))
        .flat_map(|task| entries(task.path().join("fd")))
        .map(|fd| fd.path())
        .filter(|fd| std::fs::read_link(fd).is_ok_and(|to| to == Path::new(MEMFD)))
        .filter_map(|fd| File::open(fd).ok())
        .filter_map(|file| examine(file, owner, 0).ok())
        .find(|ring| ring.header == *header)
}

/// The ring in an open `file`, whether or not it still has a name.
pub(crate) fn held(file: File, header: &StaticHeader, owner: u32) -> Result<Ring, String> {
    examine(file, owner, 0)?.of(header)
}

/// Whether the process with this header's id has not mapped its ring, as far as that can be seen.
pub(crate) fn is_unmapped(header: &StaticHeader) -> bool {
    let name = match &header.ring_at {
        RingAt::File(path) => path.path().file_name().unwrap_or_default().as_bytes(),
        RingAt::Memfd => MEMFD.as_bytes(),
        RingAt::Capture | RingAt::Nowhere => return false,
    };
    procfs::has_mapped(header.pid, name) == Some(false)
}

impl Ring {
    /// Whether its process exists and is still the same program.
    pub(crate) fn is_in_use(&self) -> bool {
        let is_running = procfs::is_running(self.header.pid, self.header.process_start_ticks);
        (is_running && !self.is_left()) || self.is_in_use_elsewhere()
    }

    /// Whether its process has replaced its program (`execve`), which unmaps the ring.
    pub(crate) fn is_left(&self) -> bool {
        !is_locked(&self.file) && is_unmapped(&self.header)
    }

    /// Whether its process is in a container, which has other process ids, and still has it mapped. The mapping counts
    /// only in this case, because forked children have it mapped too and may outlive the process.
    pub(crate) fn is_in_use_elsewhere(&self) -> bool {
        !self.is_of(Namespaces::share_processes) && is_locked(&self.file)
    }

    /// Whether the capture's path refers to the capture here, if it is still at that path.
    pub(crate) fn shares_paths(&self) -> bool {
        self.is_of(Namespaces::share_paths)
    }

    fn is_of(&self, alike: impl Fn(&Namespaces, &Namespaces) -> bool) -> bool {
        // Older recorders did not record namespaces; their rings are treated as being in this process's namespaces.
        match (self.namespaces, Namespaces::own()) {
            (Some(its), Some(own)) => alike(&its, &own),
            (its, _) => its.is_none(),
        }
    }

    /// The ring, if it belongs to the capture with this header.
    fn of(self, header: &StaticHeader) -> Result<Self, String> {
        match self.header == *header {
            true => Ok(self),
            false => Err("it belongs to another capture".into()),
        }
    }
}

fn is_of_this_boot(header: &StaticHeader) -> bool {
    header.boot_id != [0; 16] && header.boot_id == procfs::boot_id()
}

/// Whether a path's last part is the name of a ring.
pub fn is_ring(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(ring_file::NAME_PREFIX.as_bytes())
}

/// The ring at `path`, if it belongs to this owner or to the current user, and to this boot.
pub(crate) fn open(path: &Path, owner: u32) -> Result<Option<Ring>, String> {
    // A link is not followed, and a pipe or a device is not opened, which could have an effect.
    let is_file =
        std::fs::symlink_metadata(path).map(|found| found.is_file() || found.is_symlink());
    if is_file.is_ok_and(|is_file| !is_file) {
        return Err("it is not an ordinary file".into());
    }
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err("it is a symbolic link".into());
        }
        Err(error) => return Err(error.to_string()),
    };
    examine(file, owner, 1).map(Some)
}

/// The ring in the file, which must have at least `names` hard links.
fn examine(file: File, owner: u32, names: u64) -> Result<Ring, String> {
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is not an ordinary file".into());
    }
    if ![owner, procfs::effective_user()].contains(&found.uid()) {
        return Err(format!(
            "it belongs to user {}, not to {owner}",
            found.uid()
        ));
    }
    if found.mode() & 0o077 != 0 {
        return Err("others than its owner may open it".into());
    }
    if !(names..=1).contains(&found.nlink()) {
        return Err("it has more than one name".into());
    }
    let damaged = || "it is damaged".to_owned();
    let mut bytes = [0; HEADER_OFFSET + layout::STATIC_BYTES];
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return Err("it is cut off".into());
    }
    let word = |at: usize| {
        let mut le = [0; 4];
        le.copy_from_slice(&bytes[at..at + 4]);
        u32::from_le_bytes(le)
    };
    let mut preamble = [0; HEADER_OFFSET];
    preamble.copy_from_slice(&bytes[..HEADER_OFFSET]);
    let length = word(12) as usize;
    if bytes[..8] == PARTIAL {
        return Err("it lacks a part, for which there was no memory".into());
    }
    if bytes[..8] != MAGIC {
        return Err("it is no ring".into());
    }
    if word(8) != VERSION || length > PATH_BYTES || word(24) != preamble_crc(&preamble, length) {
        return Err(damaged());
    }
    let mut header = [0; layout::STATIC_BYTES];
    header.copy_from_slice(&bytes[HEADER_OFFSET..]);
    let header = StaticHeader::decode(&header).map_err(|_| damaged())?;
    if header.boot_id == [0; 16] || header.boot_id != procfs::boot_id() {
        return Err("it was made before this machine was started".into());
    }
    let queue_bytes = u64::from(word(16)) | u64::from(word(20)) << 32;
    let whole = layout::ring_end(header.ring_slots).checked_add(queue_bytes);
    if whole != Some(found.len()) {
        return Err("it is cut off".into());
    }
    Ok(Ring {
        file,
        queue_bytes,
        capture: bytes[64..64 + length].to_vec(),
        header,
        namespaces: ring_file::namespaces(&preamble),
        owner: found.uid(),
    })
}
