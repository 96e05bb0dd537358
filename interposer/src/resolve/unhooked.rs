//! At exit, finds the libraries that the loader has bound to our exports by name, and those that are bound
//! to the driver's own functions and bypass us. The loader's relocations contain this: each has a symbol and
//! the place that holds its address.
//!
//! This runs while the process ends, when other threads may still run in an interpreter that no longer
//! exists, so it must be fast (docs/measured/zoo.md). No name is read further than necessary, and the loader
//! is queried only once.

use core::ffi::{CStr, c_char};
use core::mem::size_of;
use core::ops::ControlFlow;

use gpumem_capture::Writer;
use gpumem_sys::elf::Tables;
use gpumem_sys::loaded::{self, Library};

use super::libraries::Home;
use super::proc_address;
use crate::account::{self, BoundBy};
use crate::hook::{self, Hook};

/// A library that calls a hooked driver function directly.
struct Passed {
    library: String,
    function: &'static CStr,
}

/// A place in a library that the loader has bound to a hook.
struct Bound {
    hook: &'static Hook,
    slot: usize,
    /// Where the library is mapped.
    library: usize,
}

/// The result of a walk over the libraries. It is reported only afterwards: during the walk the loader holds
/// a lock, so the loader must not be called.
#[derive(Default)]
struct Found {
    bound: Vec<Bound>,
    passed: Vec<Passed>,
}

/// Records the bindings to our exports, and reports those that bypass them.
pub(crate) fn look(writer: &'static Writer) {
    proc_address::resolve_exports();
    let mut found = Found::default();
    loaded::find(|library| {
        look_in(library, &mut found);
        ControlFlow::<()>::Continue(())
    });
    for bound in found.bound {
        account::armed_in(bound.hook.id(), BoundBy::Symbol, bound.slot, bound.library);
    }
    for Passed { library, function } in found.passed {
        let function = function.to_string_lossy();
        account::note(
            writer,
            &format!("inexact: {library} is bound to the driver's {function} past the recorder"),
        );
    }
}

fn look_in(library: Library<'_>, found: &mut Found) {
    let tables = library.tables();
    let is_ours = library.holds(look as *const () as usize);
    if is_ours || tables.symbols == 0 || tables.strings == 0 {
        return;
    }
    let relocations = tables.relocations;
    for ((start, bytes), first) in [(tables.calls, 0), (relocations, tables.relative)] {
        if start == 0 {
            continue;
        }
        for index in first..bytes / size_of::<libc::Elf64_Rela>() {
            // SAFETY: the table holds that many entries.
            let entry = unsafe { &*(start as *const libc::Elf64_Rela).add(index) };
            // SAFETY: the tables are those of this library.
            if let Some((hook, slot)) = unsafe { hooked(library.bias(), &tables, entry) } {
                judge(library, hook, slot, found);
            }
        }
    }
}

/// The hook for the symbol of a relocation, and the place that holds the bound address.
///
/// # Safety
/// `tables` and `entry` belong to a loaded library, `bias` is the value that is added to its addresses.
unsafe fn hooked(
    bias: usize,
    tables: &Tables,
    entry: &libc::Elf64_Rela,
) -> Option<(&'static Hook, usize)> {
    const R_64: u32 = 1;
    const GLOB_DAT: u32 = 6;
    const JUMP_SLOT: u32 = 7;
    if !matches!(entry.r_info as u32, R_64 | GLOB_DAT | JUMP_SLOT) {
        return None;
    }
    let symbol = (entry.r_info >> 32) as usize;
    // SAFETY: a relocation's symbol is an index into the symbol table.
    let symbol = unsafe { &*(tables.symbols as *const libc::Elf64_Sym).add(symbol) };
    let text = (tables.strings + symbol.st_name as usize) as *const c_char;
    // SAFETY: names in the string table are NUL-terminated, and names are not read past their end.
    let name = unsafe {
        if !begins(text, b"cu") && !begins(text, b"_ZN3c1027report") {
            return None;
        }
        CStr::from_ptr(text).to_bytes()
    };
    let slot = bias.wrapping_add(entry.r_offset as usize);
    Some((hook::by_name(name)?, slot))
}

/// Whether a text begins with `beginning`.
///
/// # Safety
/// `text` is NUL-terminated, and `beginning` has no NUL.
unsafe fn begins(text: *const c_char, beginning: &[u8]) -> bool {
    beginning.iter().enumerate().all(|(place, &byte)| {
        // SAFETY: all bytes before this one were those of the beginning, none of them the last.
        unsafe { *text.add(place) as u8 == byte }
    })
}

/// Records the target of a place.
fn judge(library: Library<'_>, hook: &'static Hook, slot: usize, found: &mut Found) {
    // SAFETY: a relocation's place is mapped and holds an address.
    let target = unsafe { (slot as *const usize).read_unaligned() };
    if target == hook.address() {
        let library = library.start();
        found.bound.push(Bound {
            hook,
            slot,
            library,
        });
        return;
    }
    // Calls that bypass a hook of the runtime are recorded at the driver; a library may call its own
    // functions.
    let past = target != 0 && hook.home != Home::Runtime && target == hook.exported();
    if !past || library.holds(target) {
        return;
    }
    let library = match library.file_name() {
        [] => "the program itself".to_owned(),
        name => String::from_utf8_lossy(name).into_owned(),
    };
    if !found.passed.iter().any(|known| known.library == library) {
        let function = hook.name;
        found.passed.push(Passed { library, function });
    }
}
