//! The folder behind the disk. Each inode has a descriptor opened with `O_PATH`, so it stays reachable
//! after a rename or the removal of its name.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileHandle, FileType, INodeNo};

use crate::sys;

/// An inode to which the kernel may refer.
struct Node {
    file: File,
    /// The number in the backing file system; the root has another number here.
    backing: u64,
}

impl Node {
    /// A path to the inode that does not depend on its name.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

/// All inodes that were looked up, which are never removed, and all open files.
pub struct Tree {
    nodes: Mutex<HashMap<u64, Arc<Node>>>,
    open: Mutex<HashMap<u64, Arc<File>>>,
    next: AtomicU64,
}

/// The changes of a setattr.
#[derive(Default)]
pub struct Changes {
    pub size: Option<u64>,
    pub mode: Option<u32>,
    pub owner: (Option<u32>, Option<u32>),
    pub times: (Option<SystemTime>, Option<SystemTime>),
}

impl Tree {
    /// The tree below a folder.
    pub fn new(root: &Path) -> io::Result<Self> {
        let file = handle_of(root)?;
        let backing = file.metadata()?.ino();
        let root = Arc::new(Node { file, backing });
        Ok(Self {
            nodes: Mutex::new(HashMap::from([(INodeNo::ROOT.0, root)])),
            open: Mutex::default(),
            next: AtomicU64::new(1),
        })
    }

    fn node(&self, inode: INodeNo) -> io::Result<Arc<Node>> {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes
            .get(&inode.0)
            .cloned()
            .ok_or_else(|| from(libc::ESTALE))
    }

    /// The path of a name in a folder.
    fn name(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.node(parent)?.path().join(name))
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&handle.0)
            .cloned()
            .ok_or_else(|| from(libc::EBADF))
    }

    fn opened(&self, file: File) -> FileHandle {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(handle, Arc::new(file));
        FileHandle(handle)
    }

    /// Finds a name.
    pub fn lookup(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let file = handle_of(&self.name(parent, name)?)?;
        let found = file.metadata()?;
        let backing = found.ino();
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes
            .entry(backing)
            .or_insert_with(|| Arc::new(Node { file, backing }));
        Ok(attributes(&found, backing))
    }

    /// Attributes of an inode.
    pub fn getattr(&self, inode: INodeNo) -> io::Result<FileAttr> {
        Ok(attributes(&self.node(inode)?.file.metadata()?, inode.0))
    }

    /// Changes attributes.
    pub fn setattr(
        &self,
        inode: INodeNo,
        handle: Option<FileHandle>,
        changes: &Changes,
    ) -> io::Result<FileAttr> {
        let node = self.node(inode)?;
        if let Some(size) = changes.size {
            match handle {
                Some(handle) => self.file(handle)?.set_len(size)?,
                None => OpenOptions::new()
                    .write(true)
                    .open(node.path())?
                    .set_len(size)?,
            }
        }
        if let Some(mode) = changes.mode {
            fs::set_permissions(node.path(), fs::Permissions::from_mode(mode))?;
        }
        if changes.owner != (None, None) {
            std::os::unix::fs::chown(node.path(), changes.owner.0, changes.owner.1)?;
        }
        if changes.times != (None, None) {
            let mut times = fs::FileTimes::new();
            if let Some(time) = changes.times.0 {
                times = times.set_accessed(time);
            }
            if let Some(time) = changes.times.1 {
                times = times.set_modified(time);
            }
            File::open(node.path())?.set_times(times)?;
        }
        self.getattr(inode)
    }

    /// Makes and opens a file; `flags` are those of `open`.
    pub fn create(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> io::Result<(FileAttr, FileHandle)> {
        let exclusive = flags & libc::O_EXCL != 0;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .create_new(exclusive)
            .mode(mode)
            .custom_flags(libc::O_NOFOLLOW)
            .open(self.name(parent, name)?)?;
        Ok((self.lookup(parent, name)?, self.opened(file)))
    }

    /// Opens a file, for writing if the permissions allow it.
    pub fn open(&self, inode: INodeNo) -> io::Result<FileHandle> {
        let path = self.node(inode)?.path();
        let file = OpenOptions::new().read(true).write(true).open(&path);
        Ok(self.opened(file.or_else(|_| File::open(&path))?))
    }

    /// Closes a file.
    pub fn release(&self, handle: FileHandle) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&handle.0);
    }

    /// Reads up to `size` bytes; fewer only at the end of the file.
    pub fn read(&self, handle: FileHandle, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let file = self.file(handle)?;
        let mut bytes = vec![0; size as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Writes all bytes.
    pub fn write(&self, handle: FileHandle, offset: u64, bytes: &[u8]) -> io::Result<u32> {
        self.file(handle)?.write_all_at(bytes, offset)?;
        Ok(bytes.len() as u32)
    }

    /// Waits until a file's data are in the backing file system's storage.
    pub fn fsync(&self, handle: FileHandle) -> io::Result<()> {
        self.file(handle)?.sync_data()
    }

    /// Reserves space.
    pub fn fallocate(
        &self,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> io::Result<()> {
        sys::fallocate(&*self.file(handle)?, mode, offset, length)
    }

    /// Makes a folder.
    pub fn mkdir(&self, parent: INodeNo, name: &OsStr, mode: u32) -> io::Result<FileAttr> {
        let path = self.name(parent, name)?;
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o7777))?;
        self.lookup(parent, name)
    }

    /// Removes a file's name.
    pub fn unlink(&self, parent: INodeNo, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.name(parent, name)?)
    }

    /// Removes an empty folder.
    pub fn rmdir(&self, parent: INodeNo, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.name(parent, name)?)
    }

    /// Renames a file or folder; `flags` are those of `renameat2`.
    pub fn rename(
        &self,
        old: (INodeNo, &OsStr),
        new: (INodeNo, &OsStr),
        flags: u32,
    ) -> io::Result<()> {
        sys::rename(&self.name(old.0, old.1)?, &self.name(new.0, new.1)?, flags)
    }

    /// Adds a name for a file.
    pub fn link(&self, inode: INodeNo, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        sys::link(&self.node(inode)?.path(), &self.name(parent, name)?)?;
        self.lookup(parent, name)
    }

    /// Names in a folder, with their inodes and kinds, in the same order each time.
    pub fn readdir(&self, inode: INodeNo) -> io::Result<Vec<(u64, FileType, Vec<u8>)>> {
        let node = self.node(inode)?;
        let mut names = vec![
            (inode.0, FileType::Directory, b".".to_vec()),
            (node.backing, FileType::Directory, b"..".to_vec()),
        ];
        for entry in fs::read_dir(node.path())? {
            let entry = entry?;
            let found = entry.metadata()?;
            names.push((
                found.ino(),
                kind(&found),
                entry.file_name().as_bytes().to_vec(),
            ));
        }
        names.sort_by(|one, other| one.2.cmp(&other.2));
        Ok(names)
    }

    /// Figures of the backing file system.
    pub fn statfs(&self) -> io::Result<libc::statvfs> {
        sys::statvfs(&self.node(INodeNo::ROOT)?.file)
    }
}

/// The error for a number.
pub fn from(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

fn handle_of(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(path)
}

fn kind(found: &Metadata) -> FileType {
    let kind = found.file_type();
    if kind.is_dir() {
        FileType::Directory
    } else if kind.is_symlink() {
        FileType::Symlink
    } else if kind.is_socket() {
        FileType::Socket
    } else {
        FileType::RegularFile
    }
}

fn attributes(found: &Metadata, inode: u64) -> FileAttr {
    let time =
        |seconds: i64, nanos: i64| UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanos as u32);
    FileAttr {
        ino: INodeNo(inode),
        size: found.size(),
        blocks: found.blocks(),
        atime: time(found.atime(), found.atime_nsec()),
        mtime: time(found.mtime(), found.mtime_nsec()),
        ctime: time(found.ctime(), found.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: kind(found),
        perm: (found.mode() & 0o7777) as u16,
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
