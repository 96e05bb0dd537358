//! The place of a capture that is watched: whether the same file still is there.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Said where another file has the place.
pub(crate) const OTHER: &str = "the capture was replaced by another file";

/// A path, and the file that was there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// The file's device and number.
    pub(crate) file: Option<(u64, u64)>,
    /// Its first bytes, which stay as they are.
    begins: Option<[u8; 8]>,
}

impl Place {
    /// To be asked for before the file is opened: what is put there between is then found.
    pub(crate) fn of(path: &Path) -> Self {
        let file = path.metadata().ok();
        Self {
            path: path.to_owned(),
            file: file.map(|file| (file.dev(), file.ino())),
            begins: begins(path),
        }
    }

    /// What has happened to the file, of which so many bytes have been read; `None`: it is there. A recorder may cut off what is
    /// behind its pages, never what has been read.
    pub(crate) fn changed(&self, read: u64) -> Option<&'static str> {
        let Ok(file) = self.path.metadata() else {
            return Some("the capture was removed");
        };
        if self.file != Some((file.dev(), file.ino())) {
            return Some(OTHER);
        }
        // The recorder may have written on behind what was cut off.
        if file.len() < read.max(1) || begins(&self.path) != self.begins {
            return Some("the capture was truncated");
        }
        None
    }
}

fn begins(path: &Path) -> Option<[u8; 8]> {
    let mut bytes = [0; 8];
    let file = File::open(path).ok()?;
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}
