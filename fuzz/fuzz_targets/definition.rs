//! A definition of any kind with an arbitrary payload.
#![no_main]

use gpumem_capture::DefKind;
use gpumem_capture::fuzzing::judge_payload;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((kind, payload)) = bytes.split_first() {
        judge_payload(DefKind(*kind), payload);
    }
});
