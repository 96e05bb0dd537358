//! At exit: which libraries the loader has bound to our exports by name, and which have the driver's
//! own functions in hand, past us. The loader's relocations say it: each names a symbol and the place
//! that holds its address.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::size_of;

use gpumem_capture::Writer;

use crate::account;
use crate::symbols::table::{self, Home, Hook, Way};
use crate::symbols::{elf, namespaces, proc_address};

/// A library that calls a hooked function of the driver's directly.
struct Passed {
    library: String,
    function: &'static CStr,
}

/// What a walk over the libraries finds. It is told only afterwards: during the walk the loader holds a
/// lock, under which it must not be asked anything else.
#[derive(Default)]
struct Found {
    /// Hooks, and places in the libraries that are bound to them.
    bound: Vec<(&'static Hook, usize)>,
    passed: Vec<Passed>,
}

/// Notes what is bound to our exports, and says what goes past them.
pub(crate) fn look(writer: &'static Writer) {
    proc_address::resolve_exports();
    let mut found = Found::default();
    // SAFETY: the callback has the type that dl_iterate_phdr asks for, and `found` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    for (hook, slot) in found.bound {
        account::armed(hook.id, Way::Symbol, slot);
    }
    for Passed { library, function } in found.passed {
        let function = function.to_string_lossy();
        account::note(
            writer,
            &format!("inexact: {library} is bound to the driver's {function} past the recorder"),
        );
    }
    for path in namespaces::hidden_drivers() {
        account::note(
            writer,
            &format!("inexact: {path} is loaded in another namespace (dlmopen), out of sight"),
        );
    }
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid structure and the pointer given to it above.
    let (info, found) = unsafe { (&*info, &mut *data.cast::<Found>()) };
    // SAFETY: the structure describes a library that stays loaded while it is visited.
    let (tables, ours) = unsafe {
        (
            elf::tables_of(info),
            elf::holds(info, look as *const () as usize),
        )
    };
    if ours || tables.symbols == 0 || tables.strings == 0 {
        return 0;
    }
    for (start, bytes) in [tables.calls, tables.relocations] {
        if start == 0 {
            continue;
        }
        for index in 0..bytes / size_of::<libc::Elf64_Rela>() {
            // SAFETY: the table holds that many entries.
            let entry = unsafe { &*(start as *const libc::Elf64_Rela).add(index) };
            // SAFETY: the tables are those of the library that `info` describes.
            if let Some((hook, slot)) = unsafe { hooked(info, &tables, entry) } {
                judge(info, hook, slot, found);
            }
        }
    }
    0
}

/// The hook whose name a relocation asks for, and the place that holds the address it got.
///
/// # Safety
/// `tables` and `entry` are those of the loaded library that `info` describes.
unsafe fn hooked(
    info: &libc::dl_phdr_info,
    tables: &elf::Tables,
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
    // SAFETY: names in the string table are NUL-terminated.
    let name = unsafe { CStr::from_ptr(text) }.to_bytes();
    if !name.starts_with(b"cu") && !name.starts_with(b"_ZN3c1027report") {
        return None;
    }
    let slot = (info.dlpi_addr as usize).wrapping_add(entry.r_offset as usize);
    Some((table::by_name(name)?, slot))
}

/// Notes where a place leads to.
fn judge(info: &libc::dl_phdr_info, hook: &'static Hook, slot: usize, found: &mut Found) {
    // SAFETY: a relocation's place is mapped and holds an address.
    let target = unsafe { (slot as *const usize).read_unaligned() };
    if target == hook.address() {
        found.bound.push((hook, slot));
        return;
    }
    // What goes past a hook of the runtime is seen at the driver; a library may call its own functions.
    let past = target != 0 && hook.home != Home::Runtime && target == hook.exported();
    // SAFETY: the structure describes a loaded library.
    if !past || unsafe { elf::holds(info, target) } {
        return;
    }
    // SAFETY: the loader's names are NUL-terminated and outlive the iteration.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy();
    let library = match path.rsplit('/').next() {
        Some("") | None => "the program itself".to_owned(),
        Some(name) => name.to_owned(),
    };
    if !found.passed.iter().any(|known| known.library == library) {
        let function = hook.name;
        found.passed.push(Passed { library, function });
    }
}
