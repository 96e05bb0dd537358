//! Files that the user named, or that belong to this system. They may be pipes and devices.
#![expect(clippy::disallowed_methods, reason = "this module opens files")]

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a file that the user named.
///
/// # Errors
/// The system's.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// The contents of a file that the user named, or of a file of the system with a fixed name, as in `/proc`.
///
/// # Errors
/// The system's.
pub fn whole(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// The same as text.
///
/// # Errors
/// The system's; and if it is not UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}
