//! Looks names up in files.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use gpumem_capture::Function;
use gpumem_capture::text::clean;
use rustc_hash::FxHashMap;

use super::search::Found;
use crate::replay::demangle::{Limits, cpp};

/// Reads each file once.
pub(super) struct Lookup {
    symbolizer: Symbolizer,
    plain: Plain,
}

/// Names in source form. C++ names can be very long, and each occurs at many places.
#[derive(Default)]
struct Plain {
    known: FxHashMap<String, Box<str>>,
}

impl Plain {
    fn name(&mut self, name: &str) -> String {
        if let Some(known) = self.known.get(name) {
            return known.to_string();
        }
        let plain = demangled(name);
        if plain != name {
            self.known.insert(name.to_owned(), plain.clone().into());
        }
        plain
    }
}

/// The longest name in source form, in bytes. A name that is longer is shown as the linker has it.
pub(super) const LONGEST_TEXT: usize = 64 << 10;
const LIMITS: Limits = Limits {
    name: 32 << 10,
    text: LONGEST_TEXT,
};

/// A name of Rust or C++ in source form, without Rust's hash; other names are unchanged.
pub(super) fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let mut text = Text(String::new());
        return match write!(text, "{rust:#}") {
            Ok(()) => clean(&text.0).into_owned(),
            Err(_) => clean(name).into_owned(),
        };
    }
    let plain = cpp(name, LIMITS);
    clean(plain.as_deref().unwrap_or(name)).into_owned()
}

/// Text of at most [`LONGEST_TEXT`] bytes.
struct Text(String);

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST_TEXT {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

impl Lookup {
    pub(super) fn new() -> Self {
        let symbolizer = Symbolizer::builder()
            .enable_code_info(true)
            .enable_inlined_fns(true)
            .enable_demangling(false)
            .build();
        Self {
            symbolizer,
            plain: Plain::default(),
        }
    }

    /// The functions at link addresses of a file, the innermost first; none if the file has no names for an address.
    pub(super) fn functions(&mut self, file: &Found, addresses: &[u64]) -> Vec<Vec<Function>> {
        let source = |debug_syms| {
            let mut elf = Elf::new(&file.path);
            elf.debug_syms = debug_syms;
            Source::Elf(elf)
        };
        let own = source(file.has_dwarf);
        let found = self
            .symbolizer
            .symbolize(&own, Input::VirtOffset(addresses));
        if let Ok(found) = found {
            let plain = &mut self.plain;
            let found = found.iter().map(|symbol| functions(symbol, file, plain));
            let mut found: Vec<_> = found.collect();
            if file.has_dwarf && file.has_symtab {
                self.qualify(&source(false), addresses, &mut found);
            }
            return found;
        }
        // A part of the file cannot be read. Each place is then looked up separately, so that the others keep their
        // names; and without lines if these are unreadable.
        let (names_only, plain) = (source(false), &mut self.plain);
        let symbolizer = &self.symbolizer;
        addresses
            .iter()
            .map(|address| {
                [&own, &names_only]
                    .into_iter()
                    .find_map(|source| {
                        let address = Input::VirtOffset(*address);
                        symbolizer.symbolize_single(source, address).ok()
                    })
                    .map(|symbol| functions(&symbol, file, plain))
                    .unwrap_or_default()
            })
            .collect()
    }

    /// Adds namespaces: debug information has only the short name of a function with internal linkage (`grow`), the
    /// table of names has the full one (`pool::(anonymous namespace)::grow`).
    fn qualify(&mut self, names_only: &Source<'_>, addresses: &[u64], found: &mut [Vec<Function>]) {
        let bare = |functions: &Vec<Function>| {
            functions
                .last()
                .is_some_and(|function| !own_part(&function.name).contains("::"))
        };
        let places: Vec<usize> = (0..found.len()).filter(|at| bare(&found[*at])).collect();
        let wanted: Vec<u64> = places.iter().map(|at| addresses[*at]).collect();
        let Ok(full) = self
            .symbolizer
            .symbolize(names_only, Input::VirtOffset(&wanted))
        else {
            return;
        };
        for (at, full) in places.into_iter().zip(&full) {
            if let (Symbolized::Sym(full), Some(function)) = (full, found[at].last_mut()) {
                let full = self.plain.name(&full.name);
                if is_longer(&full, &function.name) {
                    function.name = full;
                }
            }
        }
    }
}

/// A name without its template arguments.
fn own_part(name: &str) -> &str {
    match name.find('<') {
        Some(0) | None => name,
        Some(at) => &name[..at],
    }
}

/// Whether a linker's name has this last part, which is the name in the debug information.
fn is_longer(full: &str, last: &str) -> bool {
    let goes_on = |c: char| c == '_' || c.is_alphanumeric();
    let last = own_part(last);
    !last.is_empty()
        && full.match_indices(last).any(|(at, _)| {
            full[..at].ends_with("::") && !full[at + last.len()..].starts_with(goes_on)
        })
}

fn functions(symbol: &Symbolized<'_>, file: &Found, plain: &mut Plain) -> Vec<Function> {
    let Symbolized::Sym(symbol) = symbol else {
        return Vec::new();
    };
    if symbol.name.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::with_capacity(symbol.inlined.len() + 1);
    for inlined in symbol.inlined.iter().rev() {
        let name = plain.name(&inlined.name);
        found.push(function(name, inlined.code_info.as_ref()));
    }
    let name = name(symbol, file, plain.name(&symbol.name));
    found.push(function(name, symbol.code_info.as_deref()));
    found
}

/// The function's name, with the distance from its start if only exported names are known or the size of the function
/// is not known.
fn name(symbol: &Sym<'_>, file: &Found, name: String) -> String {
    let is_sure = symbol.code_info.is_some() || (file.has_symtab && symbol.size.is_some());
    if is_sure || symbol.addr == 0 {
        name
    } else {
        format!("{name}+{:#x}", symbol.offset)
    }
}

fn function(name: String, code: Option<&CodeInfo<'_>>) -> Function {
    Function {
        name,
        file: code
            .filter(|code| code.file != OsStr::new(""))
            .map(|code| clean(&code.to_path().to_string_lossy()).into_owned())
            .unwrap_or_default(),
        line: code.and_then(|code| code.line).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_as_their_authors_wrote_them() {
        let mut plain = Plain::default();
        for (mangled, name) in [
            ("main", "main"),
            ("_ZN2at6native4growEi", "at::native::grow(int)"),
            (
                "_ZN4pool12_GLOBAL__N_14growEv",
                "pool::(anonymous namespace)::grow()",
            ),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_Znonsense", "_Znonsense"),
        ] {
            assert_eq!(plain.name(mangled), name);
            assert_eq!(plain.name(mangled), name, "the second time");
        }
    }

    #[test]
    fn a_bare_name_is_the_last_part_of_a_longer_one() {
        for (full, last, expected) in [
            ("pool::(anonymous namespace)::grow(int)", "grow", true),
            ("pool::grow_all(int)", "grow", false),
            ("pool::growth(int)", "grow", false),
            ("pool::Arena<int>::Arena(int)", "Arena", true),
            ("grow", "grow", false),
            ("pool::grow", "", false),
            ("core::slice::sort::sort", "sort<u8, core::cmp::Less>", true),
        ] {
            assert_eq!(is_longer(full, last), expected, "{full}, {last}");
        }
    }
}
