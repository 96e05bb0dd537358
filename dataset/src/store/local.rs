//! A folder.
//!
//! A file is written under a name that begins with `_`, synchronized, and renamed; then its folder is synchronized. The
//! temporary name identifies the writer, so that files of killed writers can be removed.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::error::StoreError;
use super::found::{Created, Found};
use crate::layout::name_of;

/// After this time a writer on another machine counts as dead.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);
/// The depth of nested folders that are searched.
const DEPTH: usize = 16;
const SUFFIX: &str = ".tmp";

pub struct Local {
    root: PathBuf,
    host: String,
    written: AtomicU64,
}

impl Local {
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            host: name_of(&host()),
            written: AtomicU64::new(0),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub fn list(&self, prefix: &str) -> Result<Vec<Found>, StoreError> {
        let mut found = Vec::new();
        let top = self.path(prefix);
        let each = &mut |path: String, facts: fs::Metadata| {
            if !is_unfinished(&path) {
                let modified = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let bytes = facts.len();
                found.push(Found {
                    path,
                    bytes,
                    modified,
                });
            }
        };
        walk(&top, prefix, DEPTH, each).map_err(|error| StoreError::io(top.display(), error))?;
        Ok(found)
    }

    pub fn get(&self, path: &str) -> Result<Vec<u8>, StoreError> {
        let path = self.path(path);
        fs::read(&path).map_err(|error| StoreError::io(path.display(), error))
    }

    pub fn get_range(&self, path: &str, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let path = self.path(path);
        let read = || {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(range.start))?;
            let mut bytes = Vec::new();
            file.take(range.end.saturating_sub(range.start))
                .read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error| StoreError::io(path.display(), error))
    }

    pub fn download(&self, path: &str, to: &Path) -> Result<(), StoreError> {
        let path = self.path(path);
        fs::copy(&path, to).map_err(|error| StoreError::io(path.display(), error))?;
        Ok(())
    }

    pub fn put(&self, path: &str, contents: &[u8]) -> Result<(), StoreError> {
        self.write(path, &mut |file| file.write_all(contents), &|from, to| {
            fs::rename(from, to)
        })
    }

    pub fn put_file(&self, path: &str, from: &Path) -> Result<(), StoreError> {
        let mut copy = |file: &mut File| io::copy(&mut File::open(from)?, file).map(|_| ());
        self.write(path, &mut copy, &|from, to| fs::rename(from, to))
    }

    pub fn create(&self, path: &str, contents: &[u8]) -> Result<Created, StoreError> {
        let link = |from: &Path, to: &Path| {
            let linked = fs::hard_link(from, to).map_err(|error| match error.raw_os_error() {
                // Linux's errors for file systems without hard links: EPERM and EOPNOTSUPP.
                Some(1 | 95) => io::ErrorKind::Unsupported.into(),
                _ => error,
            });
            let removed = fs::remove_file(from);
            linked.and(removed)
        };
        match self.write(path, &mut |file| file.write_all(contents), &link) {
            Ok(()) => Ok(Created::New),
            Err(StoreError::Io { error, .. }) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(Created::Exists)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a file under a temporary name and then gives it its own.
    fn write(
        &self,
        path: &str,
        write: &mut dyn FnMut(&mut File) -> io::Result<()>,
        name: &dyn Fn(&Path, &Path) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        let path = self.path(path);
        let folder = path.parent().unwrap_or(&self.root);
        let own = path.file_name().unwrap_or_default().to_string_lossy();
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let (pid, host) = (std::process::id(), &self.host);
        let part = folder.join(format!("_{own}@{host}@{pid}@{number}{SUFFIX}"));
        let mut whole = || {
            make_folder(folder)?;
            let mut file = File::create(&part)?;
            write(&mut file)?;
            file.sync_all()?;
            name(&part, &path)?;
            File::open(folder)?.sync_all()
        };
        whole().map_err(|error| {
            let _ = fs::remove_file(&part);
            StoreError::io(path.display(), error)
        })
    }

    pub fn delete(&self, path: &str) -> Result<(), StoreError> {
        let path = self.path(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io(path.display(), error))
            }
            _ => {
                // Removes folders that are now empty.
                let above = path.ancestors().skip(1);
                let inside = above.take_while(|folder| *folder != self.root);
                for folder in inside {
                    if fs::remove_dir(folder).is_err() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    pub fn sweep(&self) -> Result<(), StoreError> {
        let mut left = Vec::new();
        walk(&self.root, "", DEPTH, &mut |path, facts| {
            let age = facts.modified().ok().and_then(|then| then.elapsed().ok());
            let is_old = age.is_some_and(|age| age > ABANDONED);
            if is_unfinished(&path) && (is_old || self.writer_is_dead(&path)) {
                left.push(path);
            }
        })
        .map_err(|error| StoreError::io(self.root.display(), error))?;
        left.iter().try_for_each(|path| self.delete(path))
    }

    fn writer_is_dead(&self, path: &str) -> bool {
        let mut parts = path.rsplit('@').skip(1);
        let (pid, host) = (parts.next(), parts.next());
        host == Some(&self.host) && pid.is_some_and(|pid| !is_alive(pid))
    }
}

/// This machine's name.
pub fn host() -> String {
    let said = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    said.trim().to_owned()
}

/// Whether a process of this machine is alive.
pub fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

fn is_unfinished(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with('_') && name.ends_with(SUFFIX)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent().filter(|above| *above != Path::new("")) {
        make_folder(above)?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    match folder.parent().filter(|above| *above != Path::new("")) {
        Some(above) => File::open(above)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

/// Files below a folder. A file that disappears meanwhile is skipped.
fn walk(
    folder: &Path,
    prefix: &str,
    depth: usize,
    each: &mut dyn FnMut(String, fs::Metadata),
) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        let path = format!("{prefix}{name}");
        let Ok(facts) = fs::metadata(entry.path()) else {
            continue;
        };
        if facts.is_file() {
            each(path, facts);
        } else if facts.is_dir() && depth > 0 {
            walk(&entry.path(), &format!("{path}/"), depth - 1, each)?;
        }
    }
    Ok(())
}
