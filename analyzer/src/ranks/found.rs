//! The captures below a folder.

use std::path::{Path, PathBuf};

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
    let mut found = Found::default();
    for path in named {
        match path.is_dir() {
            true => folder(path, DEPTH, &mut found),
            false => found.captures.push(path.clone()),
        }
    }
    found.captures.sort();
    found.captures.dedup();
    found
}

fn folder(path: &Path, depth: usize, found: &mut Found) {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => {
            return found
                .unreadable
                .push(format!("{}: {error}", path.display()));
        }
    };
    for entry in entries.flatten() {
        let (path, kind) = (entry.path(), entry.file_type().ok());
        if kind.is_some_and(|kind| kind.is_dir()) && depth > 0 {
            folder(&path, depth - 1, found);
        } else if kind.is_some_and(|kind| kind.is_file()) && is_capture(&path, found) {
            found.captures.push(path);
        }
    }
}

/// By its contents. A file with the extension of captures that cannot be opened is noted as unreadable.
fn is_capture(path: &Path, found: &mut Found) -> bool {
    match ask::header(path) {
        Ok(_) => true,
        Err(OpenError::Foreign { .. }) => false,
        Err(error) => {
            let is_named = path.extension().is_some_and(|extension| extension == "bin");
            if is_named {
                found.unreadable.push(error.to_string());
            }
            false
        }
    }
}
