//! Stores of files: a folder, or a bucket of an object store. A file appears completely or not at all.

mod error;
mod found;
mod local;
mod patience;
mod remote;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::Path;

pub use error::StoreError;
pub use found::{Created, Found};
use local::Local;
pub use local::{host, is_alive};
pub use patience::Patience;
use remote::Remote;

/// A folder, or a prefix of a bucket.
pub struct Store {
    place: String,
    kind: Kind,
}

enum Kind {
    Local(Local),
    Remote(Box<Remote>),
}

impl Store {
    /// The store at a place: `s3://bucket/prefix`, `gs://…`, `az://…`, or a folder. Credentials and endpoints come from
    /// the environment. Temporary refusals of an object store are retried for as long as `patience` allows.
    ///
    /// # Errors
    /// If the place is malformed.
    pub fn at(place: &str, patience: Patience) -> Result<Self, StoreError> {
        let kind = match Remote::open(place, patience) {
            Some(remote) => Kind::Remote(Box::new(remote?)),
            None => Kind::Local(Local::new(Path::new(place))),
        };
        let place = place.trim_end_matches('/').to_owned();
        Ok(Self { place, kind })
    }

    /// Whether a place is in an object store.
    pub fn is_remote(place: &str) -> bool {
        Remote::is_one(place)
    }

    /// The place as it was given.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// A file's full name.
    pub fn name_of(&self, path: &str) -> String {
        match (self.place.as_str(), path) {
            (place, "") => place.into(),
            ("", path) => format!("/{path}"),
            (place, path) => format!("{place}/{path}"),
        }
    }

    /// All files whose path begins with `prefix`, which is empty or consists of whole names that end in `/`. Sorted by
    /// path.
    ///
    /// # Errors
    /// Those of the store. A missing folder has no files.
    pub fn list(&self, prefix: &str) -> Result<Vec<Found>, StoreError> {
        let mut found = match &self.kind {
            Kind::Local(local) => local.list(prefix),
            Kind::Remote(remote) => remote.list(prefix),
        }?;
        found.sort();
        Ok(found)
    }

    /// A file's contents.
    ///
    /// # Errors
    /// Those of the store.
    pub fn get(&self, path: &str) -> Result<Vec<u8>, StoreError> {
        match &self.kind {
            Kind::Local(local) => local.get(path),
            Kind::Remote(remote) => remote.get(path),
        }
    }

    /// A part of a file; shorter at the file's end.
    ///
    /// # Errors
    /// Those of the store.
    pub fn get_range(&self, path: &str, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        match &self.kind {
            Kind::Local(local) => local.get_range(path, range),
            Kind::Remote(remote) => remote.get_range(path, range),
        }
    }

    /// Writes a file of `bytes` bytes into `to`, one chunk at a time.
    ///
    /// # Errors
    /// Those of the store.
    pub fn download(&self, found: &Found, to: &Path) -> Result<(), StoreError> {
        match &self.kind {
            Kind::Local(local) => local.download(&found.path, to),
            Kind::Remote(remote) => remote.download(found, to),
        }
    }

    /// Writes a file; replaces an existing one.
    ///
    /// # Errors
    /// Those of the store; the file is then missing or unchanged.
    pub fn put(&self, path: &str, contents: &[u8]) -> Result<(), StoreError> {
        match &self.kind {
            Kind::Local(local) => local.put(path, contents),
            Kind::Remote(remote) => remote.put(path, contents),
        }
    }

    /// The same with the contents of a local file.
    ///
    /// # Errors
    /// The same.
    pub fn put_file(&self, path: &str, from: &Path) -> Result<(), StoreError> {
        match &self.kind {
            Kind::Local(local) => local.put_file(path, from),
            Kind::Remote(remote) => remote.put_file(path, from),
        }
    }

    /// Writes a file if it does not exist. If several processes try, one succeeds.
    ///
    /// # Errors
    /// Those of the store.
    pub fn create(&self, path: &str, contents: &[u8]) -> Result<Created, StoreError> {
        match &self.kind {
            Kind::Local(local) => local.create(path, contents),
            Kind::Remote(remote) => remote.create(path, contents),
        }
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// Those of the store.
    pub fn delete(&self, path: &str) -> Result<(), StoreError> {
        match &self.kind {
            Kind::Local(local) => local.delete(path),
            Kind::Remote(remote) => remote.delete(path),
        }
    }

    /// Removes temporary files of writers that were killed on this machine.
    ///
    /// # Errors
    /// Those of the store.
    pub fn sweep(&self) -> Result<(), StoreError> {
        match &self.kind {
            Kind::Local(local) => local.sweep(),
            Kind::Remote(_) => Ok(()),
        }
    }
}
