//! perf's maps of code that was made at run time.
#![no_main]

use gpumem_fuzz_rules::targets;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| targets::perf_map(bytes));
