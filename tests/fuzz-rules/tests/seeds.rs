//! Each fuzz target on its seeds (fuzz/seeds), and on these with some bytes changed.

use std::fs;
use std::path::{Path, PathBuf};

use gpumem_fuzz_rules::{TARGETS, unpack};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The seed, and some with one byte changed, at places that depend on the seed alone.
fn near(seed: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let length = seed.len().max(1);
    let changed = (0..4_usize).map(move |number| {
        let mut bytes = seed.to_vec();
        if let Some(byte) = bytes.get_mut((number * 7919 + length * 31) % length) {
            *byte = byte.wrapping_add([1, 0x80, 0xff, 0x55][number]);
        }
        bytes
    });
    std::iter::once(seed.to_vec()).chain(changed)
}

fn run(name: &str) {
    let (_, target) = TARGETS
        .iter()
        .find(|(of, _)| *of == name)
        .expect("a target");
    let file = fs::read(folder().join("seeds").join(name)).expect("a file of seeds");
    let seeds = unpack(&file);
    assert!((1..=100).contains(&seeds.len()), "{} seeds", seeds.len());
    for seed in seeds {
        for bytes in near(seed) {
            target(&bytes);
        }
    }
}

/// A test for each target.
macro_rules! on_seeds {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*
        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

on_seeds![
    page, ring, names, definition, file, merge, state, views, pickle, lines, library, perf_map,
    symbol, budgets, machine, http, mcp,
];

#[test]
fn each_target_has_a_program_seeds_and_a_test() {
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, TESTED);
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).expect("a manifest");
    for name in &names {
        let program = folder().join(format!("fuzz_targets/{name}.rs"));
        assert!(program.is_file(), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
    let seeds = fs::read_dir(folder().join("seeds")).expect("a folder");
    let sizes: Vec<u64> = seeds
        .map(|entry| {
            entry
                .and_then(|entry| entry.metadata())
                .expect("a file")
                .len()
        })
        .collect();
    assert_eq!(sizes.len(), names.len());
    assert!(sizes.iter().sum::<u64>() < 2_000_000, "{sizes:?}");
}
