//! A store's information about its files.

use std::time::SystemTime;

/// A file of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Its path below the store's place, with `/` between names.
    pub path: String,
    /// Its bytes.
    pub bytes: u64,
    /// When it was last written.
    pub modified: SystemTime,
}

/// The result of creating a file that must not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was created.
    New,
    /// It exists already.
    Exists,
}
