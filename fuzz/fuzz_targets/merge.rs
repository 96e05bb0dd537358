//! A capture and the ring that its process left, with valid checks and arbitrary operations.
#![no_main]

use gpumem_fuzz_rules::targets;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| targets::merge(bytes));
