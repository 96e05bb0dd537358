//! A capture's file, and the state of its contents.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::refusal::{Refusal, refused};
use crate::roots::Roots;

/// A file below the server's folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Its path without symbolic links.
    pub path: PathBuf,
    /// Its name in answers.
    pub name: String,
    /// Bytes, modification time and number of the file. A capture that replaces it has other values.
    state: (u64, i64, i64, u64),
}

impl Capture {
    /// The capture that a client names.
    ///
    /// # Errors
    /// It does not exist, or is outside the folders.
    pub fn named(roots: &Roots, name: &str) -> Result<Self, Refusal> {
        Self::at(roots, roots.capture(name)?)
    }

    /// The capture at a path below the folders.
    ///
    /// # Errors
    /// Those of the system.
    pub fn at(roots: &Roots, path: PathBuf) -> Result<Self, Refusal> {
        let name = roots.shown(&path);
        let found = path.metadata();
        let found = found.map_err(|error| refused!("{name}: {error}: call captures for a list"))?;
        let state = (found.len(), found.mtime(), found.mtime_nsec(), found.ino());
        Ok(Self { path, name, state })
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.state.0
    }

    /// Text that identifies its contents.
    pub fn identity(&self) -> String {
        format!("{:?} {:?}", self.path, self.state)
    }
}

impl AsRef<Path> for Capture {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}
