//! At exit, finds functions that other code has patched in place: their first instruction is a jump out of the library
//! that holds them. Such code sees calls before the recorder (if it has patched a hook) or behind it (if it has patched
//! the driver), and may answer them from memory that it has mapped. Patches that were undone are not found.

use core::ops::ControlFlow;
use std::collections::BTreeMap;

use gpumem_capture::Writer;
use gpumem_sys::loaded::{self, Library};

use super::libraries::Home;
use crate::account;
use crate::hook;

/// Jumps from a patch to the code behind it: patchers place a relay within the reach of a short jump.
const HOPS: usize = 3;
/// Functions that a line names.
const NAMED: usize = 3;

/// A function that begins with a jump out of its library.
struct Jump {
    function: &'static str,
    is_hook: bool,
    target: usize,
}

/// Reports patched functions, by the library that has the new code.
pub(crate) fn look(writer: &'static Writer) {
    let mut found = Vec::new();
    let codes = codes();
    loaded::find(|library| {
        look_in(library, &codes, &mut found);
        ControlFlow::<()>::Continue(())
    });
    let mut by_library: BTreeMap<(String, bool), Vec<&str>> = BTreeMap::new();
    for jump in found {
        let functions = by_library.entry((owner(jump.target), jump.is_hook));
        let functions = functions.or_default();
        if !functions.contains(&jump.function) {
            functions.push(jump.function);
        }
    }
    for ((library, is_hook), functions) in by_library {
        account::note(writer, &line(&library, is_hook, &functions));
    }
}

/// The line for functions that a library has patched.
fn line(library: &str, is_hook: bool, functions: &[&str]) -> String {
    let mut names = functions
        .iter()
        .take(NAMED)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    if let more @ 1.. = functions.len().saturating_sub(NAMED) {
        names += &format!(" and {more} more");
    }
    match is_hook {
        true => format!(
            "{library} has patched the recorder's {names}: only calls that it passes on are seen"
        ),
        false => format!(
            "{library} has patched the driver's {names}: it may answer them from memory that it mapped"
        ),
    }
}

/// The code of each hook, and of each real function that is known, by address.
fn codes() -> Vec<(usize, &'static str, bool)> {
    let hooks = hook::all()
        .iter()
        .filter(|hook| matches!(hook.home, Home::Driver | Home::Runtime));
    let mut codes: Vec<_> = hooks
        .flat_map(|hook| {
            let name = hook.name.to_str().unwrap_or_default();
            let own = (hook.address(), name, true);
            [
                own,
                (hook.exported(), name, false),
                (hook.known(), name, false),
            ]
        })
        .filter(|(code, ..)| *code != 0)
        .collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

fn look_in(library: Library<'_>, codes: &[(usize, &'static str, bool)], found: &mut Vec<Jump>) {
    let (start, end) = library.span();
    let from = codes.partition_point(|(code, ..)| *code < start);
    for &(code, function, is_hook) in codes.iter().skip(from) {
        if code >= end {
            break;
        }
        if !library.has_code(code..code + LONGEST) {
            continue;
        }
        // SAFETY: these bytes are the library's code, which stays loaded during the iteration.
        let target = unsafe { jump(code) };
        if let Some(target) = target.filter(|target| !library.holds(*target)) {
            found.push(Jump {
                function,
                is_hook,
                target,
            });
        }
    }
}

/// The library that holds the code behind a patch.
fn owner(target: usize) -> String {
    let mut at = target;
    for _ in 0..HOPS {
        let name = loaded::find(|library| match library.holds(at) {
            true => ControlFlow::Break(library.file_name().to_vec()),
            false => ControlFlow::Continue(()),
        });
        match name.as_deref() {
            Some([]) => return "the program itself".to_owned(),
            Some(name) => return String::from_utf8_lossy(name).into_owned(),
            None => {}
        }
        // SAFETY: the next call of the patched function would run this code, so it is mapped.
        match unsafe { jump(at) } {
            Some(next) => at = next,
            None => break,
        }
    }
    "code outside of all libraries".to_owned()
}

/// Bytes of the longest jump that is recognised, with the mark of a branch target before it.
const LONGEST: usize = 16;

/// The target of the jump at `code`; `None` for other code.
///
/// # Safety
/// The instruction there, and what it reads, is mapped.
unsafe fn jump(code: usize) -> Option<usize> {
    const BRANCH_TARGET: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    // SAFETY: bytes of one instruction: the caller guarantees them. Each is read only if those before it begin one
    // that has it.
    let byte = |offset: usize| unsafe { *((code + offset) as *const u8) };
    let marked = BRANCH_TARGET
        .iter()
        .enumerate()
        .all(|(offset, wanted)| byte(offset) == *wanted);
    let at = if marked { BRANCH_TARGET.len() } else { 0 };
    let distance = |offset: usize| {
        let bytes = [0, 1, 2, 3].map(|more| byte(at + offset + more));
        i32::from_le_bytes(bytes) as isize
    };
    let word = |address: usize| {
        // SAFETY: the instruction reads this word.
        unsafe { (address as *const usize).read_unaligned() }
    };
    match byte(at) {
        0xe9 => Some((code + at + 5).wrapping_add_signed(distance(1))),
        0xff if byte(at + 1) == 0x25 => {
            Some(word((code + at + 6).wrapping_add_signed(distance(2))))
        }
        // To the address in rax, r10 or r11.
        0x48 if byte(at + 1) == 0xb8 && (byte(at + 10), byte(at + 11)) == (0xff, 0xe0) => {
            Some(word(code + at + 2))
        }
        0x49 if matches!(byte(at + 1), 0xba | 0xbb) && byte(at + 10) == 0x41 => {
            Some(word(code + at + 2))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(code: &[u8]) -> Option<usize> {
        let mut bytes = code.to_vec();
        bytes.resize(32, 0x90);
        // SAFETY: the bytes live for the call, and more of them than an instruction has.
        let found = unsafe { jump(bytes.as_ptr() as usize) };
        found.map(|found| found.wrapping_sub(bytes.as_ptr() as usize))
    }

    #[test]
    fn jumps_are_recognised_in_each_form() {
        assert_eq!(target(&[0xe9, 16, 0, 0, 0]), Some(21));
        assert_eq!(
            target(&[0xe9, 0xf0, 0xff, 0xff, 0xff]),
            Some(5usize.wrapping_sub(16))
        );
        assert_eq!(
            target(&[0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 16, 0, 0, 0]),
            Some(25)
        );
        let far = 0x1122_3344_5566_7788usize;
        let with = |before: &[u8], after: &[u8]| {
            let code = [before, &far.to_le_bytes(), after].concat();
            let mut bytes = code.clone();
            bytes.resize(32, 0x90);
            // SAFETY: as above.
            unsafe { jump(bytes.as_ptr() as usize) }
        };
        assert_eq!(with(&[0xff, 0x25, 0, 0, 0, 0], &[]), Some(far));
        assert_eq!(with(&[0x48, 0xb8], &[0xff, 0xe0]), Some(far));
        assert_eq!(with(&[0x49, 0xbb], &[0x41, 0xff, 0xe3]), Some(far));
        assert_eq!(target(&[0x4c, 0x8b, 0x1c, 0x24]), None);
        assert_eq!(target(&[0x48, 0xb8]), None);
    }

    #[test]
    fn a_line_names_a_few_functions() {
        let line = line("libx.so", true, &["a", "b", "c", "d", "e"]);
        assert!(line.contains("the recorder's a, b, c and 2 more"), "{line}");
    }
}
