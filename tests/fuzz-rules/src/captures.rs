//! Captures: their parts with valid checks and arbitrary contents, and whole files.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use gpumem_analyze::fuzzing::judge_view;
use gpumem_analyzer::ask::CaptureFile;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session::{Error, Session};
use gpumem_capture::DefKind;
use gpumem_capture::fuzzing::{
    judge, judge_left_ring, judge_payload, names_file, page_file, ring_file, state_file,
};
use tempfile::{NamedTempFile, TempDir};

/// A folder in memory.
pub(crate) fn folder() -> TempDir {
    let shared = Path::new("/dev/shm");
    let made = match shared.is_dir() {
        true => TempDir::new_in(shared),
        false => TempDir::new(),
    };
    made.expect("room for a folder")
}

thread_local! {
    /// Each thread overwrites one file, in one folder.
    static PLACE: (TempDir, RefCell<NamedTempFile>) = {
        let folder = folder();
        let file = NamedTempFile::new_in(folder.path()).expect("room for a file");
        (folder, RefCell::new(file))
    };
}

/// Calls `then` with the path of a file of these bytes.
pub(crate) fn with_file<T>(bytes: &[u8], then: impl FnOnce(&Path) -> T) -> T {
    PLACE.with(|(_, file)| {
        let mut file = file.borrow_mut();
        let written = file
            .as_file()
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(bytes));
        written.expect("room for a file");
        then(file.path())
    })
}

fn judged(bytes: &[u8]) {
    with_file(bytes, |path| drop(judge(path)));
}

/// Pages.
pub fn page(bytes: &[u8]) {
    judged(&page_file(bytes));
}

/// Records of a ring.
pub fn ring(bytes: &[u8]) {
    judged(&ring_file(bytes));
}

/// Embedded names.
pub fn names(bytes: &[u8]) {
    judged(&names_file(bytes));
}

/// A whole file.
pub fn file(bytes: &[u8]) {
    judged(bytes);
}

/// A definition: u8 the kind, and its payload.
pub fn definition(bytes: &[u8]) {
    if let Some((kind, payload)) = bytes.split_first() {
        judge_payload(DefKind(*kind), payload);
    }
}

/// A capture and the ring that its process left.
pub fn merge(bytes: &[u8]) {
    PLACE.with(|(folder, _)| judge_left_ring(folder.path(), bytes));
}

/// The parts of a level sum to its figure, or the account does not say exact.
pub(crate) fn check_sums(session: &Session) {
    for (device, level) in session.replay.levels.keys().copied() {
        let figures = session.replay.figures(device, level, At::End);
        let sum: u64 = figures
            .iter()
            .map(|(_, figure)| figure.bytes)
            .fold(0, u64::wrapping_add);
        let live = session.replay.counters(device, level).live;
        assert!(
            sum == live || !session.account.is_exact(),
            "{sum} bytes by stack, {live} live"
        );
    }
}

fn write_parts(file: &File, parts: &[(u64, Vec<u8>)], length: u64) {
    file.set_len(0).expect("a file");
    file.set_len(length).expect("room for a file");
    for (offset, bytes) in parts {
        file.write_all_at(bytes, *offset).expect("room for a file");
    }
}

fn read_unmerged(path: &Path, at: At) -> Result<Session, Error> {
    CaptureFile::open_unmerged(path)?.read(at)
}

/// A bounded capture with any state, and records after it.
pub fn state(bytes: &[u8]) {
    let (parts, length) = state_file(bytes);
    let Some((_, state)) = parts.get(2) else {
        return;
    };
    gpumem_replay::fuzzing::judge_state(state);
    with_file(&[], |path| {
        let file = File::options().write(true).open(path).expect("a file");
        write_parts(&file, &parts, length);
        let _ = judge(path);
        for at in [At::Peak, At::End] {
            if let Ok(session) = read_unmerged(path, at) {
                check_sums(&session);
            }
        }
    });
}

/// A view or export of a capture: u8 which, and pages as for [`page`].
pub fn views(bytes: &[u8]) {
    let Some((which, pages)) = bytes.split_first() else {
        return;
    };
    with_file(&page_file(pages), |path| {
        if let Ok(session) = read_unmerged(path, At::End) {
            check_sums(&session);
        }
        judge_view(path, usize::from(*which));
    });
}
