//! The checked-in captures of real programs (tests/data/captures) and of damaged files (tests/fixtures/captures/v1).

use std::path::{Path, PathBuf};

use tempfile::{TempDir, tempdir};

/// A copy of captures, because a view writes beside the file and takes over what a process left in memory.
pub struct Captures(TempDir);

impl Captures {
    /// Copies the captures with these names.
    pub fn copied(names: &[&str]) -> Self {
        let copies = Self(tempdir().expect("a folder"));
        for name in names {
            std::fs::copy(checked_in(name), copies.path(name)).expect("a copy");
        }
        copies
    }

    /// The file of a capture.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.bin"))
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}

/// The contents of a capture.
pub fn contents(name: &str) -> Vec<u8> {
    std::fs::read(checked_in(name)).expect("a capture")
}

/// The repository's file.
pub fn checked_in(name: &str) -> PathBuf {
    let tests = Path::new("../../tests");
    let file = format!("{name}.bin");
    let data = tests.join("data/captures").join(&file);
    match data.exists() {
        true => data,
        false => tests.join("fixtures/captures/v1").join(&file),
    }
}

/// Fails with all faults of a table.
#[track_caller]
pub fn none(faults: &[String]) {
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}
