//! A capture's file, and whether it is still the same.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::refusal::{Refusal, refused};
use crate::roots::Roots;

/// A file below the folders of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Where it is, without symbolic links.
    pub path: PathBuf,
    /// As answers name it.
    pub name: String,
    /// Bytes, time of the last change and number of the file: another capture in its place has others.
    state: (u64, i64, i64, u64),
}

impl Capture {
    /// The capture that a client names.
    ///
    /// # Errors
    /// There is none, or it is outside the folders.
    pub fn named(roots: &Roots, name: &str) -> Result<Self, Refusal> {
        Self::at(roots, roots.capture(name)?)
    }

    /// The capture at a path below the folders.
    ///
    /// # Errors
    /// The system's.
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

    /// What distinguishes its contents.
    pub fn identity(&self) -> String {
        format!("{:?} {:?}", self.path, self.state)
    }
}

impl AsRef<Path> for Capture {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}
