//! The captures below a folder.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gpumem_capture::OpenError;

use crate::ask;

/// The maximum depth of folders that are searched.
const DEPTH: usize = 8;

/// The contents of folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Captures, by name.
    pub captures: Vec<PathBuf>,
    /// Files and folders that could not be read, and why.
    pub unreadable: Vec<String>,
}

/// The captures at the paths that were named: files themselves, and all captures in folders.
pub fn find(named: &[PathBuf]) -> Found {
    Search::default().find(named)
}

/// A search that is repeated: files that have not changed are not opened again.
#[derive(Debug, Default)]
pub struct Search {
    known: HashMap<PathBuf, (Stamp, Kind)>,
}

/// A file's device and number, length, and time.
type Stamp = ((u64, u64), u64, Option<SystemTime>);

#[derive(Clone, Debug)]
enum Kind {
    Capture,
    Other,
    /// A file with the extension of captures that cannot be opened, and why.
    Unreadable(String),
}

impl Search {
    /// The captures that are there now.
    pub fn find(&mut self, named: &[PathBuf]) -> Found {
        let mut found = Found::default();
        for path in named {
            match path.is_dir() {
                true => self.folder(path, DEPTH, &mut found),
                false => found.captures.push(path.clone()),
            }
        }
        found.captures.sort();
        found.captures.dedup();
        found
    }

    fn folder(&mut self, path: &Path, depth: usize, found: &mut Found) {
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => {
                let path = path.display();
                return found.unreadable.push(format!("{path}: {error}"));
            }
        };
        for entry in entries.flatten() {
            let (path, kind) = (entry.path(), entry.file_type().ok());
            if kind.is_some_and(|kind| kind.is_dir()) && depth > 0 {
                self.folder(&path, depth - 1, found);
            } else if kind.is_some_and(|kind| kind.is_file()) {
                match self.kind(&path) {
                    Kind::Capture => found.captures.push(path),
                    Kind::Unreadable(why) => found.unreadable.push(why),
                    Kind::Other => {}
                }
            }
        }
    }

    fn kind(&mut self, path: &Path) -> Kind {
        let Ok(file) = path.metadata() else {
            return Kind::Other;
        };
        let stamp = ((file.dev(), file.ino()), file.len(), file.modified().ok());
        match self.known.get(path) {
            // A capture grows.
            Some((known, Kind::Capture)) if known.0 == stamp.0 => return Kind::Capture,
            Some((known, kind)) if *known == stamp => return kind.clone(),
            _ => {}
        }
        let kind = by_contents(path);
        self.known.insert(path.to_owned(), (stamp, kind.clone()));
        kind
    }
}

fn by_contents(path: &Path) -> Kind {
    match ask::header(path) {
        Ok(_) => Kind::Capture,
        Err(OpenError::Foreign { .. }) => Kind::Other,
        Err(error) if path.extension().is_some_and(|of| of == "bin") => {
            Kind::Unreadable(error.to_string())
        }
        Err(_) => Kind::Other,
    }
}
