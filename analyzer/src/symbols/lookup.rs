//! Looks names up in files.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::path::PathBuf;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
use gpumem_capture::Function;
use gpumem_capture::text::clean;
use rustc_hash::FxHashMap;

use super::search::Found;
use crate::replay::demangle::{Limits, cpp};

/// Looks up each address of a file once, for all captures.
pub(super) struct Lookup {
    symbolizer: Symbolizer,
    plain: Plain,
    known: FxHashMap<PathBuf, FxHashMap<u64, Vec<Function>>>,
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

    /// The shortest of a function's names in source form; one that has no such form is the last choice.
    fn shortest(&mut self, names: &[String]) -> String {
        let plain = names.iter().map(|name| self.name(name));
        let shortest = plain.min_by_key(|name| (name.starts_with("_Z"), name.len(), name.clone()));
        shortest.unwrap_or_default()
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
            known: FxHashMap::default(),
        }
    }

    /// The functions at ascending link addresses of a file, the innermost first; none if the file has no names for an
    /// address.
    pub(super) fn functions(&mut self, file: &Found, addresses: &[u64]) -> Vec<Vec<Function>> {
        let mut known = self.known.remove(&file.path).unwrap_or_default();
        let is_new = |address: &u64| !known.contains_key(address);
        let new: Vec<u64> = addresses.iter().copied().filter(is_new).collect();
        known.extend(new.iter().copied().zip(self.read(file, &new)));
        let of = |address| known.get(address).cloned().unwrap_or_default();
        let found = addresses.iter().map(of).collect();
        self.known.insert(file.path.clone(), known);
        found
    }

    fn read(&mut self, file: &Found, addresses: &[u64]) -> Vec<Vec<Function>> {
        let mut found = match file.elf.has_dwarf {
            true => self.with_lines(file, addresses),
            false => vec![Vec::new(); addresses.len()],
        };
        for table in [&file.elf.symtab, &file.elf.dynsym].into_iter().flatten() {
            // Debug information has only the short name of a function with internal linkage (`grow`), the full table
            // has the whole one (`pool::(anonymous namespace)::grow`).
            let is_open = |at: &usize| match found[*at].last() {
                Some(function) => table.is_full && !own_part(&function.name).contains("::"),
                None => true,
            };
            let places: Vec<usize> = (0..found.len()).filter(is_open).collect();
            let wanted: Vec<u64> = places.iter().map(|at| addresses[*at]).collect();
            let symbols = table.find(&file.elf.file, &wanted);
            for (at, symbol) in places.into_iter().zip(symbols) {
                let Some(symbol) = symbol else { continue };
                let Some(function) = found[at].last_mut() else {
                    let name = self.plain.shortest(&symbol.names);
                    let is_sure = file.elf.symtab.is_some() && symbol.size > 0;
                    let name = with_distance(name, is_sure, symbol.start, addresses[at]);
                    found[at].push(function(name, None));
                    continue;
                };
                let mut names = symbol.names.iter().map(|name| self.plain.name(name));
                if let Some(name) = names.find(|name| is_longer(name, &function.name)) {
                    function.name = name;
                }
            }
        }
        found
    }

    /// The functions with files and lines, from debug information.
    fn with_lines(&mut self, file: &Found, addresses: &[u64]) -> Vec<Vec<Function>> {
        let (source, plain) = (Source::Elf(Elf::new(&file.path)), &mut self.plain);
        if let Ok(found) = self
            .symbolizer
            .symbolize(&source, Input::VirtOffset(addresses))
        {
            let found = found.iter().map(|symbol| functions(symbol, file, plain));
            return found.collect();
        }
        // A part of the file cannot be read. Each place is then looked up separately, so that the others keep their
        // names.
        let symbolizer = &self.symbolizer;
        addresses
            .iter()
            .map(|address| {
                let address = Input::VirtOffset(*address);
                let symbol = symbolizer.symbolize_single(&source, address);
                symbol.map_or_else(|_| Vec::new(), |symbol| functions(&symbol, file, plain))
            })
            .collect()
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
    let has_size = file.elf.symtab.is_some() && symbol.size.is_some();
    let is_sure = symbol.code_info.is_some() || has_size;
    let address = symbol.addr.wrapping_add(symbol.offset as u64);
    let name = with_distance(plain.name(&symbol.name), is_sure, symbol.addr, address);
    found.push(function(name, symbol.code_info.as_deref()));
    found
}

/// The name, with the distance from the function's start if only exported names are known or the size of the function
/// is not known.
fn with_distance(name: String, is_sure: bool, start: u64, address: u64) -> String {
    match is_sure || start == 0 {
        true => name,
        false => format!("{name}+{:#x}", address.wrapping_sub(start)),
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
        let names = ["_Zx", "_ZN2at6native8grow_allEi", "_ZN2at6native4growEi"].map(str::to_owned);
        assert_eq!(plain.shortest(&names), "at::native::grow(int)");
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
