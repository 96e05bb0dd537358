//! The checked-in captures of real programs (tests/data/captures) and of damaged files (tests/fixtures/captures/v1).

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use tempfile::{TempDir, tempdir};

/// A copy of captures, because a view writes beside the file and takes over what a process left in memory.
pub struct Captures(TempDir);

impl Captures {
    /// Copies the captures with these names.
    pub fn copied(names: &[&str]) -> Self {
        let copies = Self(tempdir().expect("a folder"));
        for name in names {
            let copy = copies.path(name);
            std::fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
            std::fs::write(copy, contents(name)).expect("a copy");
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

/// The contents of a capture. What only tests read is compressed.
pub fn contents(name: &str) -> Vec<u8> {
    let file = checked_in(name);
    if file.exists() {
        return std::fs::read(file).expect("a capture");
    }
    let mut bytes = Vec::new();
    let compressed = File::open(file.with_extension("bin.gz")).expect("a capture");
    GzDecoder::new(compressed)
        .read_to_end(&mut bytes)
        .expect("a capture");
    bytes
}

/// The repository's file.
pub fn checked_in(name: &str) -> PathBuf {
    let tests = Path::new("../../tests");
    let file = format!("{name}.bin");
    let data = tests.join("data/captures").join(&file);
    let fixture = tests.join("fixtures/captures/v1").join(&file);
    match fixture.exists() {
        true => fixture,
        false => data,
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
