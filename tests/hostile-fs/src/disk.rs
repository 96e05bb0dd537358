//! The file system: each request waits for the rules on a separate thread and is then carried out.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::operation::Operation;
use crate::rules::Rules;
use crate::tree::{Changes, Tree, from};

/// The kernel must request attributes each time, as on a network file system without a cache.
const TTL: Duration = Duration::ZERO;

/// A folder, and the rules for its requests.
pub struct Disk {
    tree: Arc<Tree>,
    rules: Arc<Rules>,
}

/// A FUSE reply that can be an error.
trait Answer: Send + 'static {
    fn refuse(self, error: Errno);
}

macro_rules! answers {
    ($($name:ident)*) => {
        $(impl Answer for $name {
            fn refuse(self, error: Errno) {
                self.error(error);
            }
        })*
    };
}
answers!(ReplyAttr ReplyCreate ReplyData ReplyDirectory ReplyEmpty ReplyEntry ReplyOpen ReplyStatfs ReplyWrite);

impl Disk {
    /// A disk for the folder of `tree`, whose requests follow `rules`.
    pub fn new(tree: Tree, rules: Arc<Rules>) -> Self {
        Self {
            tree: Arc::new(tree),
            rules,
        }
    }

    /// Waits for the rules and carries a request out by `work`, which gets the most bytes that it may
    /// use; `answer` sends the result.
    fn serve<R: Answer, T>(
        &self,
        operation: Operation,
        reply: R,
        work: impl FnOnce(&Tree, u32) -> io::Result<T> + Send + 'static,
        answer: impl FnOnce(R, T) + Send + 'static,
    ) {
        let (tree, rules) = (Arc::clone(&self.tree), Arc::clone(&self.rules));
        // One thread per request, because a held request must not block others.
        std::thread::spawn(move || {
            let done = rules
                .pass(operation)
                .map_err(from)
                .and_then(|most| work(&tree, most));
            match done {
                Ok(found) => answer(reply, found),
                Err(error) => reply.refuse(Errno::from(error)),
            }
        });
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.serve(
            Operation::Lookup,
            reply,
            move |tree, _| tree.lookup(parent, &name),
            |reply, found| reply.entry(&TTL, &found, Generation(0)),
        );
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.serve(
            Operation::Getattr,
            reply,
            move |tree, _| tree.getattr(inode),
            |reply, found| reply.attr(&TTL, &found),
        );
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let time = |time: TimeOrNow| match time {
            TimeOrNow::SpecificTime(time) => time,
            TimeOrNow::Now => SystemTime::now(),
        };
        let changes = Changes {
            size,
            mode,
            owner: (user, group),
            times: (accessed.map(time), modified.map(time)),
        };
        let operation = if size.is_some() {
            Operation::Truncate
        } else {
            Operation::Setattr
        };
        self.serve(
            operation,
            reply,
            move |tree, _| tree.setattr(inode, handle, &changes),
            |reply, found| reply.attr(&TTL, &found),
        );
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let name = name.to_owned();
        self.serve(
            Operation::Mkdir,
            reply,
            move |tree, _| tree.mkdir(parent, &name, mode),
            |reply, found| reply.entry(&TTL, &found, Generation(0)),
        );
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(
            Operation::Unlink,
            reply,
            move |tree, _| tree.unlink(parent, &name),
            |reply, ()| reply.ok(),
        );
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(
            Operation::Rmdir,
            reply,
            move |tree, _| tree.rmdir(parent, &name),
            |reply, ()| reply.ok(),
        );
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        self.serve(
            Operation::Rename,
            reply,
            move |tree, _| tree.rename((parent, &name), (new_parent, &new_name), flags.bits()),
            |reply, ()| reply.ok(),
        );
    }

    fn link(&self, _: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.serve(
            Operation::Link,
            reply,
            move |tree, _| tree.link(inode, parent, &name),
            |reply, found| reply.entry(&TTL, &found, Generation(0)),
        );
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let name = name.to_owned();
        self.serve(
            Operation::Create,
            reply,
            move |tree, _| tree.create(parent, &name, mode, flags),
            |reply, (found, handle)| {
                reply.created(
                    &TTL,
                    &found,
                    Generation(0),
                    handle,
                    FopenFlags::FOPEN_KEEP_CACHE,
                );
            },
        );
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.serve(
            Operation::Open,
            reply,
            move |tree, _| tree.open(inode),
            |reply, handle| reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE),
        );
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.serve(
            Operation::Read,
            reply,
            move |tree, most| tree.read(handle, offset, size.min(most)),
            |reply, bytes| reply.data(&bytes),
        );
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let bytes = bytes.to_owned();
        let mapped = flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let operation = if mapped {
            Operation::Writeback
        } else {
            Operation::Write
        };
        self.serve(
            operation,
            reply,
            move |tree, most| {
                let length = bytes.len().min(most as usize);
                tree.write(handle, offset, bytes.get(..length).unwrap_or_default())
            },
            |reply, written| reply.written(written),
        );
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.serve(
            Operation::Flush,
            reply,
            |_, _| Ok(()),
            |reply, ()| reply.ok(),
        );
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.serve(
            Operation::Release,
            reply,
            move |tree, _| {
                tree.release(handle);
                Ok(())
            },
            |reply, ()| reply.ok(),
        );
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        self.serve(
            Operation::Fsync,
            reply,
            move |tree, _| tree.fsync(handle),
            |reply, ()| reply.ok(),
        );
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let work = move |tree: &Tree, _| tree.readdir(inode);
        let answer = move |mut reply: ReplyDirectory,
                           names: Vec<(u64, fuser::FileType, Vec<u8>)>| {
            for (place, (inode, kind, name)) in names.into_iter().enumerate().skip(offset as usize)
            {
                let name = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&name);
                if reply.add(INodeNo(inode), place as u64 + 1, kind, name) {
                    break;
                }
            }
            reply.ok();
        };
        self.serve(Operation::Readdir, reply, work, answer);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.serve(
            Operation::Statfs,
            reply,
            |tree, _| tree.statfs(),
            |reply, found| {
                reply.statfs(
                    found.f_blocks,
                    found.f_bfree,
                    found.f_bavail,
                    found.f_files,
                    found.f_ffree,
                    found.f_bsize as u32,
                    found.f_namemax as u32,
                    found.f_frsize as u32,
                );
            },
        );
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.serve(
            Operation::Fallocate,
            reply,
            move |tree, _| tree.fallocate(handle, offset, length, mode),
            |reply, ()| reply.ok(),
        );
    }
}
