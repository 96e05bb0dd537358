//! The captures in folders: what is searched, and what a capture is. The only such search; docs/folders.md has its rules.

use std::collections::HashMap;
use std::fs::FileType;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gpumem_capture::{Header, OpenError, is_ring};

use crate::ask;

/// The maximum depth of folders below the named one.
const DEPTH: usize = 16;

/// The captures of files and folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Captures, by path.
    pub captures: Vec<PathBuf>,
    /// Files and folders that could not be read, and why.
    pub unreadable: Vec<String>,
    /// Whether the search ended at its limit.
    pub is_cut: bool,
}

/// What a file is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A capture.
    Capture(Header),
    /// Something else.
    Other,
    /// It begins like a capture or is named like one, and cannot be opened; and why.
    Unreadable(String),
}

/// The kind of a file, by its contents. Its name counts only if they are not known.
pub fn kind(path: &Path) -> Kind {
    kind_of(path, ask::header(path))
}

/// The same for a file that was opened.
pub fn kind_of(path: &Path, opened: Result<Header, OpenError>) -> Kind {
    match opened {
        Ok(header) => Kind::Capture(header),
        Err(OpenError::Foreign { .. }) => Kind::Other,
        Err(OpenError::Io { .. } | OpenError::Empty { .. })
            if path.extension().is_none_or(|of| of != "bin") =>
        {
            Kind::Other
        }
        Err(error) => Kind::Unreadable(error.to_string()),
    }
}

/// The captures at these paths: the files themselves, and all captures in the folders.
pub fn find(named: &[PathBuf]) -> Listing {
    find_among(named, usize::MAX)
}

/// The same for folders that may have anything: at most so many files and folders are examined.
pub fn find_among(named: &[PathBuf], most: usize) -> Listing {
    Walk::of(named, most).listing(kind)
}

/// A search that is repeated: files that have not changed are not opened again.
#[derive(Debug, Default)]
pub struct Search {
    known: HashMap<PathBuf, (Stamp, Kind)>,
}

/// A file's device and number, length, and time.
type Stamp = ((u64, u64), u64, Option<SystemTime>);

impl Search {
    /// The captures that are there now.
    pub fn find(&mut self, named: &[PathBuf]) -> Listing {
        Walk::of(named, usize::MAX).listing(|path| self.kind(path))
    }

    fn kind(&mut self, path: &Path) -> Kind {
        let Ok(file) = path.metadata() else {
            return Kind::Other;
        };
        let stamp = ((file.dev(), file.ino()), file.len(), file.modified().ok());
        match self.known.get(path) {
            // A capture grows.
            Some((known, kind @ Kind::Capture(_))) if known.0 == stamp.0 => return kind.clone(),
            Some((known, kind)) if *known == stamp => return kind.clone(),
            _ => {}
        }
        let kind = kind(path);
        self.known.insert(path.to_owned(), (stamp, kind.clone()));
        kind
    }
}

/// The files at and below paths.
#[derive(Debug, Default)]
pub struct Walk {
    /// Files that were named.
    pub named: Vec<PathBuf>,
    /// Files in folders, whose kind is to be found.
    pub files: Vec<PathBuf>,
    /// Folders that could not be read, and why.
    pub unreadable: Vec<String>,
    /// How many files and folders may still be examined; `None`: there were more.
    left: Option<usize>,
}

impl Walk {
    /// Finds at most so many.
    pub fn of(named: &[PathBuf], most: usize) -> Self {
        let mut walk = Self {
            left: Some(most),
            ..Self::default()
        };
        for path in named {
            match path.is_dir() {
                true => walk.folder(path, DEPTH),
                false => walk.named.push(path.clone()),
            }
        }
        walk
    }

    fn folder(&mut self, folder: &Path, depth: usize) {
        let mut entries = match entries(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                let why = format!("{}: {error}", folder.display());
                return self.unreadable.push(why);
            }
        };
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (path, kind) in entries {
            self.left = self.left.and_then(|left| left.checked_sub(1));
            if self.left.is_none() {
                return;
            }
            if kind.is_dir() && depth > 0 {
                self.folder(&path, depth - 1);
            } else if kind.is_file() && !is_ring(&path) {
                self.files.push(path);
            }
        }
    }

    fn listing(self, mut kind: impl FnMut(&Path) -> Kind) -> Listing {
        let mut listing = Listing {
            captures: self.named,
            unreadable: self.unreadable,
            is_cut: self.left.is_none(),
        };
        for path in self.files {
            match kind(&path) {
                Kind::Capture(_) => listing.captures.push(path),
                Kind::Unreadable(why) => listing.unreadable.push(why),
                Kind::Other => {}
            }
        }
        listing.captures.sort();
        listing.captures.dedup();
        listing
    }
}

/// A folder's entries without hidden ones. Links are neither files nor folders: they may lead out of it, or back into it.
fn entries(folder: &Path) -> io::Result<Vec<(PathBuf, FileType)>> {
    let entries = std::fs::read_dir(folder)?.flatten();
    let shown = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    Ok(shown
        .filter_map(|entry| Some((entry.path(), entry.file_type().ok()?)))
        .collect())
}
