//! Arbitrary memory snapshots of PyTorch. The import produces a complete capture or an error.
#![no_main]

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use gpumem_analyzer::import::torch_snapshot;
use gpumem_analyzer::pickle::read;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().expect("a folder"));
/// The number of captures to write, because each stays mapped until the process ends. After that
/// only the pickle is parsed.
const CAPTURES: u32 = 40;
static WRITTEN: AtomicU32 = AtomicU32::new(0);

fuzz_target!(|bytes: &[u8]| {
    if WRITTEN.load(Ordering::Relaxed) >= CAPTURES {
        let _ = read(bytes, &["segments", "device_traces", "blocks", "frames", "action"]);
        return;
    }
    let path = FOLDER.path().join("imported.bin");
    let _ = std::fs::remove_file(&path);
    let imported = torch_snapshot(bytes, "fuzz.pickle", &path);
    WRITTEN.fetch_add(u32::from(path.exists()), Ordering::Relaxed);
    if imported.is_ok() {
        let read = session::read(&path, At::End, &mut |_, _, _| {}, &mut |_| {});
        let session = read.expect("what was written can be read");
        assert!(session.integrity.damage.is_empty(), "nothing of it is damaged");
        for (device, level) in session.replay.levels.keys().copied() {
            let figures = session.replay.figures(device, level, At::End);
            let sum: u64 = figures.iter().map(|(_, figure)| figure.bytes).fold(0, u64::wrapping_add);
            let live = session.replay.counters(device, level).live;
            assert!(sum == live || !session.account.is_exact(), "{sum} bytes by stack, {live} live");
        }
    }
});
