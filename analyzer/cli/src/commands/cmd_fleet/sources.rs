//! Finds captures in the given files and folders.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gpumem_analyzer::ask;
use gpumem_capture::{Identity, OpenError};
use gpumem_dataset::Key;

/// The depth of nested folders that are searched.
const DEPTH: usize = 16;

/// A file that may be a capture.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Its absolute path.
    pub path: PathBuf,
    /// When it was last written.
    pub modified: SystemTime,
}

/// The kind of a file.
pub enum Is {
    /// A capture with this key.
    Capture(Key),
    /// Not a capture.
    Foreign,
    /// It cannot be read.
    Unreadable(String),
}

/// The candidates in these places, by name, and what could not be read. Files of the dataset are skipped.
pub fn list(places: &[PathBuf], dataset: &Path) -> anyhow::Result<(Vec<Candidate>, Vec<String>)> {
    let (mut candidates, mut unreadable) = (Vec::new(), Vec::new());
    for place in places {
        let place = std::path::absolute(place)?;
        if let Err(error) = walk(&place, DEPTH, &mut candidates) {
            unreadable.push(match error.kind() {
                io::ErrorKind::NotFound => format!("{}: no such file or folder", place.display()),
                _ => format!("{}: {error}", place.display()),
            });
        }
    }
    let own = std::path::absolute(dataset)?;
    candidates.retain(|of| !of.path.starts_with(&own));
    candidates.sort();
    candidates.dedup_by(|a, b| a.path == b.path);
    Ok((candidates, unreadable))
}

/// Adds a file, or the files below a folder. What disappears meanwhile is skipped, and so are links: they lead out of the
/// folder, or back into it.
fn walk(place: &Path, depth: usize, found: &mut Vec<Candidate>) -> io::Result<()> {
    let facts = fs::metadata(place)?;
    if facts.is_dir() {
        for entry in fs::read_dir(place)? {
            let entry = entry?;
            // Such names, and Parquet files, belong to datasets.
            let is_data = entry.file_name().as_encoded_bytes().starts_with(b"_")
                || entry.path().extension().is_some_and(|of| of == "parquet");
            if is_data || depth == 0 || entry.file_type()?.is_symlink() {
                continue;
            }
            match walk(&entry.path(), depth - 1, found) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    } else if facts.is_file() && facts.len() >= Identity::BYTES as u64 {
        let modified = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let path = place.to_owned();
        found.push(Candidate { path, modified });
    }
    Ok(())
}

impl Candidate {
    /// Its kind, from its first bytes.
    pub fn is(&self) -> Is {
        let head = || -> io::Result<Vec<u8>> {
            let mut head = Vec::new();
            gpumem_files::read::open(&self.path)?
                .take(4096)
                .read_to_end(&mut head)?;
            Ok(head)
        };
        match head() {
            Ok(head) => match gpumem_analyzer::fleet::identity_of(&head) {
                Some(key) => Is::Capture(key),
                None if self.path.extension().is_some_and(|of| of == "bin") => self.why_not(),
                None => Is::Foreign,
            },
            Err(error) => Is::Unreadable(format!("{}: {error}", self.path.display())),
        }
    }

    /// Files named `….bin` that are not captures are reported, unless their contents identify them as something else.
    fn why_not(&self) -> Is {
        match ask::header(&self.path) {
            Err(OpenError::Foreign { .. }) | Ok(_) => Is::Foreign,
            Err(error) => Is::Unreadable(error.to_string()),
        }
    }
}

/// `3 captures`, `1 capture`.
pub(super) fn many(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
