//! One file in memory that every run overwrites.

use std::cell::RefCell;
use std::io::{Seek, Write};
use std::path::Path;

use gpumem_capture::fuzzing::judge;

thread_local! {
    static FILE: RefCell<tempfile::NamedTempFile> = RefCell::new(
        tempfile::Builder::new()
            .tempfile_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." })
            .expect("room for a file"),
    );
}

/// Reads the bytes as a capture and checks the rules for all captures.
pub fn judged(bytes: &[u8]) {
    FILE.with_borrow_mut(|file| {
        let written = file
            .as_file()
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(bytes));
        written.expect("room for a file");
        let _ = judge(file.path());
    });
}
