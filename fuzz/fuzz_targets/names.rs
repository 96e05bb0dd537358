//! Embedded names with valid marks and checksums, and arbitrary contents.
#![no_main]

use gpumem_capture::fuzzing::names_file;
use libfuzzer_sys::fuzz_target;

#[path = "common/mod.rs"]
mod common;

fuzz_target!(|bytes: &[u8]| common::judged(&names_file(bytes)));
