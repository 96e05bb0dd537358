//! A view or export of a capture with arbitrary pages.
#![no_main]

use gpumem_fuzz_rules::targets;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| targets::views(bytes));
