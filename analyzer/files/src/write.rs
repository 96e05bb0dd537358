//! New files: written under a random name in the same folder, and renamed when they are complete. A reader never sees
//! a part of one, and a link with that name is replaced and not followed. Only their owner can read them.
#![expect(clippy::disallowed_methods, reason = "this module creates files")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

/// Who chose the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The user typed it: it may be a pipe or a device, which is written to.
    User,
    /// A command chose a name beside its input: only in a folder that belongs to the user.
    Command,
}

/// A file that is being written. Without [`NewFile::finish`], no file is left.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    to: To,
}

#[derive(Debug)]
enum To {
    Part(NamedTempFile),
    /// A pipe or a device.
    Special(File),
}

impl NewFile {
    /// Begins a file that is to have this path.
    ///
    /// # Errors
    /// The system's. For [`By::Command`], also if the folder belongs to another user.
    pub fn create(path: &Path, by: By) -> io::Result<Self> {
        let folder = folder(path);
        let to = match by {
            By::User if is_special(path, folder) => To::Special(open_special(path)?),
            _ => {
                if by == By::Command {
                    check_owner(folder)?;
                }
                let mut part = tempfile::Builder::new();
                To::Part(
                    part.prefix(".gpumem-")
                        .suffix(".part")
                        .tempfile_in(folder)?,
                )
            }
        };
        Ok(Self {
            path: path.to_owned(),
            to,
        })
    }

    /// Gives the file its path.
    ///
    /// # Errors
    /// The system's; no file is left then.
    pub fn finish(self) -> io::Result<()> {
        match self.to {
            To::Part(part) => part
                .persist(&self.path)
                .map(drop)
                .map_err(|error| error.error),
            To::Special(mut file) => file.flush(),
        }
    }

    /// The same after its contents have reached the disk, because it may replace the only copy. Returns its bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn finish_synchronized(self) -> io::Result<u64> {
        let file = match &self.to {
            To::Part(part) => part.as_file(),
            To::Special(file) => file,
        };
        let bytes = file.metadata()?.len();
        if matches!(self.to, To::Part(_)) {
            file.sync_all()?;
        }
        self.finish()?;
        Ok(bytes)
    }

    /// Gives the file the first of these paths that no file has. `None` if all have one.
    ///
    /// # Errors
    /// The system's.
    pub fn finish_as_first(
        self,
        paths: impl IntoIterator<Item = PathBuf>,
    ) -> io::Result<Option<PathBuf>> {
        let To::Part(mut part) = self.to else {
            return Ok(None);
        };
        for path in paths {
            match part.persist_noclobber(&path) {
                Ok(_) => return Ok(Some(path)),
                Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
                    part = refused.file;
                }
                Err(refused) => return Err(refused.error),
            }
        }
        Ok(None)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Part(part) => part.as_file_mut().write(bytes),
            To::Special(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Part(part) => part.as_file_mut().flush(),
            To::Special(file) => file.flush(),
        }
    }
}

/// Writes a whole file.
///
/// # Errors
/// As [`NewFile::create`].
pub fn whole(path: &Path, by: By, contents: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(path, by)?;
    file.write_all(contents)?;
    file.finish()
}

/// Calls `write` with a path in a new folder that only this user can enter, and then gives the file its own path: for
/// writers that open their file themselves.
///
/// # Errors
/// Those of `write`, or the system's.
pub fn at_path<T, E: From<io::Error>>(
    path: &Path,
    by: By,
    write: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let beside = folder(path);
    if by == By::Command {
        check_owner(beside)?;
    }
    let mut new = tempfile::Builder::new();
    let new = new.prefix(".gpumem-").suffix(".part").tempdir_in(beside)?;
    let part = new.path().join("part");
    let written = write(&part)?;
    std::fs::rename(&part, path)?;
    Ok(written)
}

/// A folder for temporary files of a writer of `path`: its own, or the system's for pipes and devices.
#[must_use]
pub fn temporary_folder(path: &Path) -> PathBuf {
    let folder = folder(path);
    match is_special(path, folder) {
        true => std::env::temp_dir(),
        false => folder.to_owned(),
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Whether no file can replace this path: a pipe, a device, or a name of an open file such as `/dev/stdout`.
fn is_special(path: &Path, folder: &Path) -> bool {
    let is_link = path
        .symlink_metadata()
        .is_ok_and(|found| found.is_symlink());
    match path.metadata() {
        Ok(found) if found.is_file() => {
            let folder = folder.canonicalize().unwrap_or_default();
            is_link && (folder == Path::new("/dev") || folder.starts_with("/proc"))
        }
        Ok(found) => !found.is_dir(),
        Err(_) => false,
    }
}

fn open_special(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .custom_flags(OFlags::NOCTTY.bits() as i32)
        .open(path)
}

fn check_owner(folder: &Path) -> io::Result<()> {
    let owner = folder.metadata()?.uid();
    match owner == rustix::process::geteuid().as_raw() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("its folder belongs to another user ({owner})"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = folder.read_dir().unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_link_is_replaced_and_its_target_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("out.svg"));
        std::fs::write(&target, "precious").unwrap();
        for by in [By::User, By::Command] {
            let _ = std::fs::remove_file(&link);
            symlink(&target, &link).unwrap();
            whole(&link, by, b"<svg/>").unwrap();
            assert_eq!(std::fs::read(&target).unwrap(), b"precious");
            assert_eq!(std::fs::read(&link).unwrap(), b"<svg/>");
            assert!(link.symlink_metadata().unwrap().is_file());
        }
        symlink(&target, folder.path().join("other")).unwrap();
        at_path(&folder.path().join("other"), By::User, |part| {
            std::fs::write(part, "x")
        })
        .unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        assert_eq!(names(folder.path()), ["other", "out.svg", "target"]);
    }

    #[test]
    fn only_the_owner_can_read_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.html");
        whole(&path, By::Command, b"").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn nothing_is_left_of_a_file_that_was_not_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "old").unwrap();
        let mut file = NewFile::create(&path, By::User).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        let refused = at_path(&path, By::User, |part| {
            std::fs::write(part, "half")?;
            Err::<(), _>(io::Error::other("no"))
        });
        assert!(refused.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn an_existing_file_is_kept_where_a_new_name_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["1", "2"].map(|name| folder.path().join(name));
        std::fs::write(&first, "old").unwrap();
        let new = || {
            let mut file = NewFile::create(&first, By::Command).unwrap();
            file.write_all(b"new").unwrap();
            file.finish_as_first([first.clone(), second.clone()])
                .unwrap()
        };
        assert_eq!(new(), Some(second.clone()));
        assert_eq!(new(), None);
        assert_eq!(std::fs::read(&first).unwrap(), b"old");
        assert_eq!(std::fs::read(&second).unwrap(), b"new");
    }

    #[test]
    fn a_device_that_the_user_named_is_written_to() {
        whole(Path::new("/dev/null"), By::User, b"x").unwrap();
        assert_eq!(
            temporary_folder(Path::new("/dev/null")),
            std::env::temp_dir()
        );
        assert_eq!(temporary_folder(Path::new("out.svg")), Path::new("."));
        let kind = Path::new("/dev/null").metadata().unwrap().file_type();
        assert!(!kind.is_file());
    }

    #[test]
    fn a_command_chooses_no_name_in_a_folder_of_another_user() {
        let folder = tempfile::tempdir().unwrap();
        let is_root = rustix::process::geteuid().is_root();
        // Only root can give a folder away; others see the root folder as another's.
        let other = match is_root {
            true => folder.path(),
            false => Path::new("/"),
        };
        if is_root {
            std::os::unix::fs::chown(other, Some(4711), None).unwrap();
        }
        let refused = whole(&other.join("report.svg"), By::Command, b"x").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("another user"), "{refused}");
    }
}
