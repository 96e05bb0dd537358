//! The capture's data about the recorder itself: its hooks, how they are bound, the number and duration of their calls,
//! and what was not recorded ([`crate::account`]).

use core::ffi::CStr;
use core::ops::ControlFlow;

use gpumem_capture::{Coordinates, DefKind, ProcessKey, Writer};
use gpumem_sys::loaded;

use crate::call_times::Outcome;
use crate::hook::{self, Hook, Need};
use crate::resolve::{proc_address, real};
use crate::{account, call_counts, call_times};

/// Defines all hooks: the functions that events name.
pub(crate) fn write_hooks(writer: &'static Writer) {
    for hook in hook::all() {
        let name = hook.label();
        let _ = writer.definition(
            DefKind::API,
            &[&hook.id().to_le_bytes(), &length(name), name],
        );
    }
}

/// Writes new facts, if there are any.
#[inline]
pub(crate) fn write_if_new(writer: &'static Writer) {
    if account::is_new() {
        write(writer);
    }
}

/// Writes the facts since the last call. Called with the first event after a hook was installed or something was not
/// recorded, and at exit.
pub(crate) fn write(writer: &'static Writer) {
    // First, so that facts that arrive meanwhile are written the next time.
    account::begin_writing();
    // A library that requests one hook usually requests many in a row.
    let (mut newest, mut library) = (0, Vec::new());
    while let Some((id, by, caller, base)) = account::take_armed() {
        let Some(hook) = hook::by_id(id) else {
            continue;
        };
        if base == 0 || base != newest {
            newest = base;
            library = library_of(caller);
        }
        let fields = [hook.name.to_bytes(), by.name().as_bytes(), &library];
        let [name, by, library] = fields.map(|field| (length(field), field));
        let _ = writer.definition(
            DefKind::HOOK,
            &[&name.0, name.1, &by.0, by.1, &library.0, library.1],
        );
    }
    real::write_loaded(writer);
    for line in account::take_lines() {
        account::note(writer, &line);
    }
    for line in account::take_unseen() {
        account::note(writer, &format!("inexact: {line}"));
    }
    for (hook, calls) in account::take_unrecorded() {
        if let Some(hook) = hook::by_id(hook) {
            let name = hook.name.to_string_lossy();
            account::note(
                writer,
                &format!("inexact: {calls} calls of {name} are not recorded"),
            );
        }
    }
}

/// Notes which hooked functions this driver does not have, so that nothing can be recorded from them.
pub(crate) fn note_missing(writer: &'static Writer) {
    proc_address::resolve_exports();
    let driver = || hook::all().iter().filter(|hook| hook.is_driver());
    if !driver().any(Hook::has_real) {
        return; // there is no driver at all, or not yet
    }
    let missing = driver().filter(|hook| hook.need == Need::Required && !hook.has_real());
    let names: Vec<_> = missing.map(|hook| hook.name.to_string_lossy()).collect();
    if !names.is_empty() {
        account::note(writer, &format!("this driver has no {}", names.join(", ")));
    }
}

/// Writes which part of the behaviour of PyTorch's allocator is recorded.
pub(crate) fn write_seen(writer: &Writer, words: &str) {
    let _ = writer.fact(ProcessKey::ALLOCATOR_SEES, words);
}

/// Writes the position of the rank in the job's parallelism.
pub(crate) fn write_coordinates(writer: &Writer, coordinates: &Coordinates) {
    let _ = writer.fact(ProcessKey::COORDINATES, coordinates.to_string());
}

/// Writes each hook's calls as a fact about the process: `calls.cuMemAlloc_v2` = `17`. Done at exit.
pub(crate) fn write_calls(writer: &'static Writer) {
    for hook in hook::all() {
        let calls = call_counts::calls(hook.id());
        if calls != 0 {
            let key = [ProcessKey::CALLS.as_bytes(), hook.name.to_bytes()].concat();
            let _ = writer.fact(key, calls.to_string());
        }
    }
}

/// Writes the durations of calls: `call_times.cuMemAlloc_v2` = `17 3400000 900000 17:16 19:1`. Done at exit.
pub(crate) fn write_call_times(writer: &'static Writer) {
    for (place, name) in call_times::TIMED.iter().enumerate() {
        for outcome in Outcome::ALL {
            let times = call_counts::times(place, outcome);
            let key = match outcome {
                Outcome::Succeeded => ProcessKey::CALL_TIMES,
                Outcome::Failed => ProcessKey::FAILED_CALL_TIMES,
                Outcome::SetUp => ProcessKey::SET_UP_CALL_TIMES,
            };
            if times.calls() != 0 {
                let _ = writer.fact(format!("{key}{name}"), times.to_string());
            }
        }
    }
}

/// Writes the last event of the training. Done at exit.
pub(crate) fn write_trained(writer: &Writer, last: u64) {
    if last != 0 {
        let _ = writer.fact(ProcessKey::TRAINED_UNTIL, last.to_string());
    }
}

/// The length of a `str` field of a definition.
fn length(text: &[u8]) -> [u8; 4] {
    (text.len() as u32).to_le_bytes()
}

/// The file name of the library that holds an address; empty if there is no such library. It is copied under the
/// loader's lock, because another thread may unload the library meanwhile.
fn library_of(address: usize) -> Vec<u8> {
    let found = loaded::find(|library| match library.holds(address) {
        true => ControlFlow::Break(library.file_name().to_vec()),
        false => ControlFlow::Continue(()),
    });
    match found {
        None => Vec::new(),
        // The loader has no name for the program here.
        Some(name) if name.is_empty() => program_name(address),
        Some(name) => name,
    }
}

fn program_name(address: usize) -> Vec<u8> {
    let path = loaded::symbol_at(address).dli_fname;
    if path.is_null() {
        return Vec::new();
    }
    // SAFETY: the name of the program, which is never unloaded, is NUL-terminated and stays.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    path.rsplit(|&b| b == b'/').next().unwrap_or(path).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_named_by_its_file() {
        let malloc = libc::malloc as *const () as usize;
        assert!(library_of(malloc).starts_with(b"libc.so"));
        let program = std::env::current_exe().unwrap();
        let here = a_library_is_named_by_its_file as *const () as usize;
        assert_eq!(
            library_of(here),
            program.file_name().unwrap().as_encoded_bytes()
        );
        assert_eq!(library_of(0), b"");
    }
}
