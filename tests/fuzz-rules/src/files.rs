//! Files of other programs, and what users write.

use std::sync::atomic::{AtomicU32, Ordering};

use gpumem_analyze::fuzzing::judge_budgets;
use gpumem_analyzer::ask;
use gpumem_analyzer::import::torch_snapshot;
use gpumem_analyzer::pickle::read;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::symbols::fuzzing::{judge_library, judge_name, judge_perf_map};
use gpumem_sim_machine::Machine;

use crate::captures::{check_sums, folder, with_file};

/// The number of imports that are written, because each capture stays mapped until the process ends. After that only
/// the pickle is parsed.
const IMPORTS: u32 = 40;
static IMPORTED: AtomicU32 = AtomicU32::new(0);

/// A memory snapshot of PyTorch. The import is a complete capture or an error.
pub fn pickle(bytes: &[u8]) {
    if IMPORTED.load(Ordering::Relaxed) >= IMPORTS {
        let _ = read(
            bytes,
            &["segments", "device_traces", "blocks", "frames", "action"],
        );
        return;
    }
    let folder = folder();
    let path = folder.path().join("imported.bin");
    let imported = torch_snapshot(bytes, "fuzz.pickle", &path);
    IMPORTED.fetch_add(u32::from(path.exists()), Ordering::Relaxed);
    if imported.is_ok() {
        let read = ask::read(&path, At::End);
        let session = read.expect("what was written can be read");
        assert!(session.integrity.damage.is_empty(), "nothing is damaged");
        check_sums(&session);
    }
}

/// A line table of Python's code.
pub fn lines(bytes: &[u8]) {
    gpumem_replay::fuzzing::judge_lines(bytes);
}

/// A library: u64 the address that is looked up, and the file.
pub fn library(bytes: &[u8]) {
    if let Some((address, file)) = bytes.split_first_chunk() {
        with_file(file, |path| {
            judge_library(path, u64::from_le_bytes(*address))
        });
    }
}

/// A map of perf.
pub fn perf_map(bytes: &[u8]) {
    judge_perf_map(bytes);
}

/// The mangled name of a function, or of a class.
pub fn symbol(bytes: &[u8]) {
    judge_name(&String::from_utf8_lossy(bytes));
}

/// gpumem.toml.
pub fn budgets(bytes: &[u8]) {
    judge_budgets(&String::from_utf8_lossy(bytes));
}

/// A simulated machine: lines `NAME=value`. Invalid settings give one line each, and their default.
pub fn machine(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let settings: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();
    let value = |name: &str| {
        let found = settings.iter().find(|(of, _)| *of == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let made = Machine::from_lookup(value);
    assert!(made.machine.devices.len() <= 64);
    assert!(
        made.complaints.len() <= settings.len(),
        "{:?}",
        made.complaints
    );
    assert!(made.machine.page_bytes.is_power_of_two());
    let count = made.machine.devices.len();
    let visible = &made.machine.visible;
    assert!(visible.iter().all(|index| (*index as usize) < count));
}
