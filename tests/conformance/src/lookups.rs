//! `cuGetProcAddress` against `dlsym`: for each name that NVIDIA's runtimes look up, whether the driver exports
//! the returned address, and under which name.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};

use crate::card::{Card, Facts};
use crate::library::call;

/// The lookups of cudart 12.9 and 13.2: name, version, flags, and the driver's answer when they were recorded.
const LISTS: [&str; 2] = [
    include_str!("../../data/cudart12_getprocaddress.txt"),
    include_str!("../../data/cudart13_getprocaddress.txt"),
];

/// Runs all checks of this file.
pub fn check(card: &Card, facts: &mut Facts) {
    let mut exported: HashMap<usize, String> = HashMap::new();
    let mut same = 0u64;
    for line in LISTS.iter().flat_map(|list| list.lines()) {
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(version), Some(flags)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let number =
            |text: &str, key: &str| text.strip_prefix(key).and_then(|n| n.parse::<u64>().ok());
        let (Some(version), Some(flags)) = (number(version, "ver="), number(flags, "flags="))
        else {
            continue;
        };
        for suffix in [
            "", "_v2", "_v3", "_v4", "_ptsz", "_ptds", "_v2_ptsz", "_v2_ptds", "_v3_ptsz",
        ] {
            let candidate = format!("{name}{suffix}");
            match card.cuda.address(&candidate) {
                0 => {}
                address => drop(exported.entry(address).or_insert(candidate)),
            }
        }
        let given = ask(card, name, version as i32, flags);
        let answer = match exported.get(&given) {
            _ if given == 0 => "none".to_owned(),
            Some(export) => {
                same += 1;
                export.clone()
            }
            None => "not an export".to_owned(),
        };
        facts.note(format!("lookup.{name}.{version}.{flags}"), answer);
    }
    facts.note("lookups.equal_to_dlsym", same);
}

/// The address for a name, a version and flags, or 0.
fn ask(card: &Card, name: &str, version: i32, flags: u64) -> usize {
    let Ok(name) = CString::new(name) else {
        return 0;
    };
    let mut found: *mut c_void = core::ptr::null_mut();
    let mut status = 0u32;
    let code = call!(card.cuda, "cuGetProcAddress_v2"(
        *const c_char: name.as_ptr(), *mut *mut c_void: &mut found, i32: version, u64: flags, *mut u32: &mut status
    ));
    if code == 0 { found as usize } else { 0 }
}
