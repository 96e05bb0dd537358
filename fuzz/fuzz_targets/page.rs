//! Pages with valid checksums and arbitrary contents.
#![no_main]

use gpumem_capture::fuzzing::page_file;
use libfuzzer_sys::fuzz_target;

#[path = "common/mod.rs"]
mod common;

fuzz_target!(|bytes: &[u8]| common::judged(&page_file(bytes)));
