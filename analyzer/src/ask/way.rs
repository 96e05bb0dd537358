//! The way of an answer: which captures were opened for it, and how many passes were made over each.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// A capture that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Its path.
    pub path: PathBuf,
    /// How many passes were made over its records.
    pub passes: u32,
}

thread_local! {
    /// `None`: nobody wants to know.
    static WAY: RefCell<Option<Vec<Opening>>> = const { RefCell::new(None) };
}

/// Runs `what`, and returns also what this thread opened for it, in order.
pub fn of<T>(what: impl FnOnce() -> T) -> (T, Vec<Opening>) {
    WAY.replace(Some(Vec::new()));
    let result = what();
    (result, WAY.take().unwrap_or_default())
}

/// Notes an opening.
pub(super) fn opened(path: &Path) {
    WAY.with_borrow_mut(|way| {
        way.iter_mut().for_each(|way| {
            way.push(Opening {
                path: path.to_owned(),
                passes: 0,
            });
        });
    });
}

/// Notes a pass over the capture that was opened last with this path.
pub(super) fn passed(path: &Path) {
    WAY.with_borrow_mut(|way| {
        let opened = way.iter_mut().flatten().rfind(|of| of.path == path);
        opened.into_iter().for_each(|of| of.passes += 1);
    });
}
