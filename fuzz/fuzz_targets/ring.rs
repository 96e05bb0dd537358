//! A ring with valid commit words and arbitrary records.
#![no_main]

use gpumem_capture::fuzzing::ring_file;
use libfuzzer_sys::fuzz_target;

#[path = "common/mod.rs"]
mod common;

fuzz_target!(|bytes: &[u8]| common::judged(&ring_file(bytes)));
