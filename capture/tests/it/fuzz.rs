//! The fuzz targets of fuzz/ as property tests: arbitrary bytes with valid checksums are read without a panic,
//! a hang or much memory, and the result is consistent.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use gpumem_capture::fuzzing::{
    judge, judge_payload, names_file, names_seed, page_file, page_seed, ring_file, ring_seed,
};
use gpumem_capture::*;
use proptest::prelude::*;

use crate::support::in_memory;

/// No single allocation may be larger than this: a page's columns have 16 MiB.
const MOST: usize = 40 << 20;

/// The system's allocator, which records the largest allocation of each thread.
struct Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    // A thread that ends may allocate after its variables were dropped.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: every call is the system allocator's own, with the caller's arguments.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as this function's caller guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as this function's caller guarantees.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: as this function's caller guarantees.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as this function's caller guarantees.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

fn judged(file: &[u8]) -> Integrity {
    let folder = in_memory();
    let path = folder.path().join("made.bin");
    std::fs::write(&path, file).unwrap();
    let integrity = judge(&path).unwrap();
    let largest = LARGEST.get();
    assert!(largest <= MOST, "{largest} bytes at once");
    integrity
}

/// The committed captures of the newest version.
fn fixture(name: &str) -> Vec<u8> {
    // Tests run in their package's folder.
    let folder = Path::new("../tests/fixtures/captures/v1");
    std::fs::read(folder.join(name)).unwrap()
}

/// The seed with some bytes changed, inserted or removed.
fn near(seed: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..6_u8), 0..5);
    changes.prop_map(move |changes| {
        let mut bytes = seed.clone();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes.insert(at, byte),
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes[at] = byte,
            }
        }
        bytes
    })
}

fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..600)
}

#[test]
fn pages_of_anything() {
    let seed = page_seed(&fixture("wrapped.bin"));
    let whole = judged(&page_file(&seed));
    assert_eq!(
        (whole.pages, whole.events, whole.damage.len()),
        (5, 160, 0),
        "{whole:?}"
    );
    proptest!(ProptestConfig::with_cases(500), |(bytes in prop_oneof![near(seed), noise()])| {
        judged(&page_file(&bytes));
    });
}

#[test]
fn rings_of_anything() {
    let seed = ring_seed(&fixture("wrapped.bin"));
    let whole = judged(&ring_file(&seed));
    assert_eq!(
        whole.damage.len(),
        1,
        "what was in pages is missing: {whole:?}"
    );
    assert_eq!((whole.events, whole.definitions), (5, 5), "{whole:?}");
    proptest!(ProptestConfig::with_cases(500), |(bytes in prop_oneof![near(seed), noise()])| {
        judged(&ring_file(&bytes));
    });
}

#[test]
fn embedded_names_of_anything() {
    let seed = names_seed(&fixture("baked.bin"));
    let whole = judged(&names_file(&seed));
    assert_eq!((whole.symbols, whole.damage.len()), (60, 0), "{whole:?}");
    proptest!(ProptestConfig::with_cases(500), |(bytes in prop_oneof![near(seed), noise()])| {
        judged(&names_file(&bytes));
    });
}

#[test]
fn payloads_of_anything() {
    let hostile = [&[0xff; 12][..], &[0; 40]].concat();
    let taken = Cell::new(0);
    proptest!(ProptestConfig::with_cases(3000), |(kind in 126..=145_u8, bytes in prop_oneof![near(hostile), noise()])| {
        taken.set(taken.get() + u32::from(judge_payload(DefKind(kind), &bytes)));
    });
    assert!(taken.get() > 100, "{taken:?}");
    assert!(LARGEST.get() <= MOST);
}

#[test]
fn a_header_that_states_a_ring_of_a_gigabyte_sets_nothing_aside() {
    let mut file = fixture("killed.bin");
    let slots = 1_u32 << 24;
    for copy in [0, 2048] {
        file[copy + 80..copy + 84].copy_from_slice(&slots.to_le_bytes());
        let pages = 24_576 + u64::from(slots) * 64;
        file[copy + 120..copy + 128].copy_from_slice(&pages.to_le_bytes());
        let crc = crc32fast::hash(&file[copy..copy + 508]);
        file[copy + 508..copy + 512].copy_from_slice(&crc.to_le_bytes());
    }
    let integrity = judged(&file);
    assert!(!integrity.damage.is_empty(), "{integrity:?}");
}

#[test]
fn a_page_of_16_mib_of_sites_or_pointers_sets_nothing_aside() {
    for column in [1_usize, 3] {
        let raw = vec![0_u8; (16 << 20) - 16];
        let stored = zstd::bulk::compress(&raw, 1).unwrap();
        let mut bytes = vec![1, 0, 0, 0];
        for n in 0..8 {
            let (stored, raw) = if n == column {
                (stored.len(), raw.len())
            } else {
                (0, 0)
            };
            bytes.extend_from_slice(&(stored as u16).to_le_bytes());
            bytes.extend_from_slice(&(raw as u32).to_le_bytes()[..3]);
        }
        bytes.extend_from_slice(&stored);
        let integrity = judged(&page_file(&bytes));
        assert_eq!(
            (integrity.pages, integrity.damage.len()),
            (0, 1),
            "{integrity:?}"
        );
    }
}
