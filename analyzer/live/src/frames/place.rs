//! The path of a followed capture, to detect that its file was replaced, removed or truncated.

use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The message after another file replaced the capture.
pub(crate) const OTHER: &str = "the capture was replaced by another file";

/// A path, and the file that was there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// The file's device and number.
    file: Option<(u64, u64)>,
    /// Its first bytes, which never change.
    begins: Option<[u8; 8]>,
}

impl Place {
    /// Must be called before the file is opened, so that a replacement in between is detected.
    pub(crate) fn of(path: &Path) -> Self {
        let file = path.metadata().ok();
        Self {
            path: path.to_owned(),
            file: file.map(|file| (file.dev(), file.ino())),
            begins: begins(path),
        }
    }

    /// What happened to the file, given the number of bytes read; `None` if it is intact. A recorder may cut off what
    /// is after its pages, but never what has been read.
    pub(crate) fn changed(&self, read: u64) -> Option<&'static str> {
        let Ok(file) = self.path.metadata() else {
            return Some("the capture was removed");
        };
        if self.file != Some((file.dev(), file.ino())) {
            return Some(OTHER);
        }
        // The recorder may have written more after the file was truncated.
        if file.len() < read.max(1) || begins(&self.path) != self.begins {
            return Some("the capture was truncated");
        }
        None
    }
}

fn begins(path: &Path) -> Option<[u8; 8]> {
    let mut bytes = [0; 8];
    let file = gpumem_files::read::open(path).ok()?;
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}
