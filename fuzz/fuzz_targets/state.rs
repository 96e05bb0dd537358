//! A bounded capture with an arbitrary state.
#![no_main]

use gpumem_fuzz_rules::targets;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| targets::state(bytes));
