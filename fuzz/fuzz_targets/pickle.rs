//! Memory snapshots of PyTorch that are anything: what is imported is a whole capture, or it is said why not.
#![no_main]

use std::sync::LazyLock;

use gpumem_analyzer::import::torch_snapshot;
use gpumem_analyzer::replay::Moment;
use gpumem_analyzer::session;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().expect("a folder"));

fuzz_target!(|bytes: &[u8]| {
    let path = FOLDER.path().join("imported.bin");
    let _ = std::fs::remove_file(&path);
    if torch_snapshot(bytes, "fuzz.pickle", &path).is_ok() {
        let read = session::read(&path, Moment::End, &mut |_, _, _| {}, &mut |_| {});
        let session = read.expect("what was written can be read");
        assert!(session.integrity.damage.is_empty(), "nothing of it is damaged");
        for (device, level) in session.replay.rows.keys().copied() {
            let figures = session.replay.figures(device, level, Moment::End);
            let sum: u64 = figures.iter().map(|(_, figure)| figure.bytes).fold(0, u64::wrapping_add);
            let live = session.replay.counters(device, level).live;
            assert!(sum == live || !session.account.is_exact(), "{sum} bytes by stack, {live} live");
        }
    }
});
