//! `conformance`: makes the same calls on a real card and on the simulated one, and prints the results
//! as one JSON object. `scripts/gpu-check --compare` lists the differences.
//!
//! Needs no CUDA toolkit: the driver and NVML are opened at run time. Exit codes: 0 done, 77 no
//! card, 1 any other error. Each fact is a name and a value; sizes are bytes. A step is the change of
//! the card's used memory, so other programs should not use the card meanwhile.

mod blocks;
mod card;
mod code;
mod errors;
mod handles;
mod library;
mod lookups;
mod ordered;
mod streams;

use std::ffi::c_char;
use std::process::ExitCode;

use card::{Card, Facts};
use library::call;

fn main() -> ExitCode {
    let card = match Card::open() {
        Ok(card) => card,
        Err(reason) => {
            eprintln!("conformance: no GPU here: {reason}");
            return ExitCode::from(77);
        }
    };
    let mut facts = Facts::default();
    identity(&card, &mut facts);
    errors::without_context(&card, &mut facts);
    if let Err(reason) = code::contexts(&card, &mut facts) {
        eprintln!("conformance: {reason}");
        return ExitCode::FAILURE;
    }
    let base = card.used();
    figures(&card, &mut facts);
    lookups::check(&card, &mut facts);
    blocks::check(&card, &mut facts);
    handles::check(&card, &mut facts);
    ordered::check(&card, &mut facts);
    errors::check(&card, &mut facts);
    code::modules(&card, &mut facts);
    facts.note("end.left_on_the_card", card.used() - base);
    // Runs last, because the card may keep the memory that it allocates for a stream or a limit.
    streams::check(&card, &mut facts);
    code::limits(&card, &mut facts);
    code::modules_with_limits(&card, &mut facts);
    println!("{:#}", serde_json::Value::Object(facts.0));
    ExitCode::SUCCESS
}

/// The card and the driver; not compared.
fn identity(card: &Card, facts: &mut Facts) {
    let mut version = 0i32;
    call!(card.cuda, "cuDriverGetVersion"(*mut i32: &mut version));
    facts.note("card.driver_version", version);
    let mut name = [0u8; 128];
    call!(card.cuda, "cuDeviceGetName"(
        *mut c_char: name.as_mut_ptr().cast(), i32: name.len() as i32, i32: 0
    ));
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    let text = name.get(..end).unwrap_or_default();
    facts.note("card.name", String::from_utf8_lossy(text).into_owned());
    let mut total = 0usize;
    call!(card.cuda, "cuDeviceTotalMem_v2"(*mut usize: &mut total, i32: 0));
    facts.note("card.total_bytes", total);
}

/// The relation between the driver's and NVML's figures.
fn figures(card: &Card, facts: &mut Facts) {
    let used = card.used();
    facts.note("card.used_by_cuMemGetInfo", used);
    let Some(nvml) = card.nvml() else {
        facts.note("nvml.there", false);
        return;
    };
    facts.note("nvml.there", true);
    facts.note("card.used_by_nvml", nvml.v1);
    facts.note("card.reserved_by_nvml", nvml.reserved);
    facts.note(
        "nvml.v1_is_v2_and_reserved",
        nvml.v1 == nvml.v2 + nvml.reserved,
    );
    facts.note("nvml.v1_less_cuMemGetInfo", nvml.v1 - used);
    facts.note("nvml.v2_less_cuMemGetInfo", nvml.v2 - used);
}
