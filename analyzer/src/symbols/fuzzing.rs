//! For the fuzz targets (fuzz/) and the tests that run them on their seeds: what reads libraries and perf's maps.

use std::path::Path;
use std::rc::Rc;

use gpumem_capture::text::clean;

use super::elf;
use super::lookup::{LONGEST_TEXT, Lookup, demangled};
use super::parts::parts;
use super::perf_map::PerfMap;
use super::readable::readable;
use super::search::Found;

fn assert_clean(text: &str) {
    assert!(
        clean(text) == text,
        "{text:?} has characters that a terminal acts on"
    );
}

/// Reads a file as a library, and looks an address up in it, as if its build id were the module's.
///
/// # Panics
/// If a name is not clean text.
pub fn judge_library(path: &Path, address: u64) -> bool {
    let Some(elf) = elf::open(path) else {
        return false;
    };
    let _ = parts(&elf.file, address..address.saturating_add(64));
    let file = Found {
        path: path.to_owned(),
        elf: Rc::new(elf),
    };
    let found = Lookup::new().functions(&file, &[0, address, u64::MAX]);
    assert!(found.len() <= 3);
    for function in found.iter().flatten() {
        assert_clean(&function.name);
        assert_clean(&function.file);
    }
    true
}

/// Reads a map, and checks names at the addresses that its lines have.
///
/// # Panics
/// If a name is not clean text, or code has the name of a line that it is not in.
pub fn judge_perf_map(bytes: &[u8]) {
    let mut map = PerfMap::default();
    map.read(bytes);
    for line in bytes.split(|byte| *byte == b'\n').take(100) {
        let line = String::from_utf8_lossy(line);
        let mut numbers = line
            .split(' ')
            .map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or_default());
        let start = numbers.next().unwrap_or_default();
        let end = start.saturating_add(numbers.next().unwrap_or_default());
        for address in [start, end.saturating_sub(1), end] {
            map.name(address).into_iter().for_each(assert_clean);
        }
    }
}

/// Demangles and shortens a name.
///
/// # Panics
/// If the result is not clean text, or too long.
pub fn judge_name(name: &str) {
    let whole = demangled(name);
    assert_clean(&whole);
    assert!(
        whole.len() <= LONGEST_TEXT.max(name.len() * 3),
        "{} bytes",
        whole.len()
    );
    let short = readable(&whole);
    assert_clean(&short);
    assert!(
        short.len() <= whole.len() + 16 * whole.matches('<').count(),
        "{short}"
    );
    let class = crate::node_classes::class(name);
    assert!(class.chars().count() <= 80, "{class}");
}
