//! A dataset's folder: how files appear in it, whole or not at all.
//!
//! A file is written under a name that begins with `_` and ends in `.tmp`, synchronized, and renamed; then its folder is
//! synchronized. Only a process with the lock writes, so for it the `.tmp` files of others are those of killed writers.
#![expect(
    clippy::disallowed_methods,
    reason = "it locks and synchronizes its files itself"
)]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The lock's file. It is never removed, because two processes could then have different files.
const LOCK: &str = "_lock";
const SUFFIX: &str = ".tmp";
/// `run=…/table=…/node=…`.
const DEPTH: usize = 3;

/// An error of a file or folder.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {error}{advice}")]
pub struct Error {
    place: String,
    error: io::Error,
    advice: &'static str,
}

impl Error {
    pub(crate) fn new(place: &Path, error: io::Error) -> Self {
        let advice = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                ": what was written whole is kept; make room and run it again"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                ": run it as a user who may write there"
            }
            io::ErrorKind::Unsupported => {
                ": this file system has no locks, by which ingests wait for each other: name a folder of another"
            }
            _ => "",
        };
        Self {
            place: place.display().to_string(),
            error,
            advice,
        }
    }
}

/// The right to write to a dataset, until it is dropped or the process ends.
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Creates the folder, and waits for the lock.
    pub fn take(root: &Path) -> Result<Self, Error> {
        let path = root.join(LOCK);
        let take = || {
            make_folder(root)?;
            let file = File::options().create(true).append(true).open(&path)?;
            loop {
                match flock(&file, FlockOperation::LockExclusive) {
                    Ok(()) => return Ok(file),
                    Err(Errno::INTR) => {}
                    Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {
                        return Err(io::ErrorKind::Unsupported.into());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        match take() {
            Ok(file) => Ok(Self { file, path }),
            Err(error) => Err(Error::new(&path, error)),
        }
    }

    /// How often the dataset was changed: the length of the lock's file.
    pub fn changes(&self) -> Result<u64, Error> {
        let facts = self.file.metadata();
        facts
            .map(|facts| facts.len())
            .map_err(|error| Error::new(&self.path, error))
    }

    /// Counts a change, before it is made. Returns the new count.
    pub fn count(&self) -> Result<u64, Error> {
        let changes = self.changes()? + 1;
        let counted = self.file.set_len(changes);
        counted.map_err(|error| Error::new(&self.path, error))?;
        Ok(changes)
    }
}

/// Writes a file under a temporary name and then gives it its own.
pub fn write(
    root: &Path,
    path: &str,
    contents: &mut dyn FnMut(&mut File) -> io::Result<()>,
) -> Result<(), Error> {
    let path = root.join(path);
    let folder = path.parent().unwrap_or(root);
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    let part = folder.join(format!("_{own}{SUFFIX}"));
    let mut whole = || {
        refuse_links(root, folder)?;
        make_folder(folder)?;
        let mut file = File::create(&part)?;
        contents(&mut file)?;
        file.sync_all()?;
        fs::rename(&part, &path)?;
        File::open(folder)?.sync_all()
    };
    whole().map_err(|error| {
        let _ = fs::remove_file(&part);
        Error::new(&path, error)
    })
}

/// Removes a file, and the folders that are empty then.
pub fn remove(root: &Path, path: &str) -> Result<(), Error> {
    let path = root.join(path);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::new(&path, error)),
        _ => {
            let inside = path.ancestors().skip(1).take_while(|above| *above != root);
            for folder in inside {
                if fs::remove_dir(folder).is_err() {
                    break;
                }
            }
            Ok(())
        }
    }
}

/// Whether a file was left by a writer that was killed.
pub fn is_unfinished(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with('_') && name.ends_with(SUFFIX)
}

/// The paths and bytes of the files below a folder. A file that disappears meanwhile is skipped.
pub fn list(root: &Path) -> Result<Vec<(String, u64)>, Error> {
    let mut found = Vec::new();
    walk(root, "", DEPTH, &mut found).map_err(|error| Error::new(root, error))?;
    Ok(found)
}

fn walk(
    folder: &Path,
    prefix: &str,
    depth: usize,
    found: &mut Vec<(String, u64)>,
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
            found.push((path, facts.len()));
        } else if facts.is_dir() && depth > 0 {
            walk(&entry.path(), &format!("{path}/"), depth - 1, found)?;
        }
    }
    Ok(())
}

/// A link within a dataset would lead out of it.
fn refuse_links(root: &Path, folder: &Path) -> io::Result<()> {
    let inside = folder.ancestors().take_while(|above| *above != root);
    for folder in inside {
        if folder.is_symlink() {
            let text = format!("{} is a link, which is not followed", folder.display());
            return Err(io::Error::other(text));
        }
    }
    Ok(())
}

fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| *above != Path::new(""));
    if let Some(above) = above {
        make_folder(above)?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}
