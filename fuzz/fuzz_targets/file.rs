//! A whole file with arbitrary contents.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "common/mod.rs"]
mod common;

fuzz_target!(|bytes: &[u8]| common::judged(bytes));
