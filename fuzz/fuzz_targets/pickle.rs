//! Memory snapshots of PyTorch, imported.
#![no_main]

use gpumem_fuzz_rules::targets;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| targets::pickle(bytes));
