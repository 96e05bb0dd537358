//! The part of the allocator's behaviour that is recorded, as listed in the capture.

use super::found;
use crate::session::Session;
use crate::{definitions, hook};

/// Writes which part of the allocator's behaviour is recorded.
pub(super) fn tell(session: &'static Session) {
    let allocator = &session.allocator;
    let (blocks, traces) = (allocator.sites.sees(), allocator.trace.is_on());
    let (slots, names) = (found::are_taken(), has_names());
    let can_trace = traces || allocator.trace.is_idle() && found::attach_trace().is_some();
    // Up to 2.9, settings are passed to a separate function.
    let settings = SET.into_iter().any(is_hooked) || is_hooked(PARSE);
    let words = [
        ("requested", blocks.requested || traces),
        ("stream", blocks.stream || traces),
        ("record_stream", slots || names),
        (
            "released",
            slots && (can_trace || !allocator.trace.misses_releases()),
        ),
        ("pool", slots),
        ("calls", slots || names),
        ("settings", settings),
    ];
    let seen = words.into_iter().filter(|(_, seen)| *seen);
    let seen: Vec<_> = seen.map(|(word, _)| word).collect();
    definitions::write_seen(session.writer, &seen.join(" "));
}

/// Whether the allocator's functions are called by name, as before PyTorch 2.0.
fn has_names() -> bool {
    found::backend().is_none() && is_hooked(EMPTY)
}

fn is_hooked(name: &[u8]) -> bool {
    hook::by_name(name).is_some_and(|hook| hook.real() != 0)
}

const EMPTY: &[u8] = b"_ZN3c104cuda20CUDACachingAllocator10emptyCacheEv";
/// The functions that set settings at run time, with the strings of either of libstdc++'s ABIs.
const SET: [&[u8]; 2] = [
    b"_ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKSs",
    b"_ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
];
/// The same since 2.10; also reads the settings of the environment.
const PARSE: &[u8] = b"_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig9parseArgsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
