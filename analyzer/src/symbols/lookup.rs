//! Names out of files.

use std::ffi::OsStr;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use gpumem_capture::Function;

use super::search::Found;

/// Reads each file once.
pub(super) struct Lookup {
    symbolizer: Symbolizer,
}

impl Lookup {
    pub(super) fn new() -> Self {
        let symbolizer = Symbolizer::builder()
            .enable_code_info(true)
            .enable_inlined_fns(true)
            .enable_demangling(true)
            .build();
        Self { symbolizer }
    }

    /// The functions at link addresses of a file, the innermost first; none where the file tells
    /// nothing.
    pub(super) fn functions(&self, file: &Found, addresses: &[u64]) -> Vec<Vec<Function>> {
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
            let found = found.iter().map(|symbol| functions(symbol, file));
            let mut found: Vec<_> = found.collect();
            if file.has_dwarf && file.has_symtab {
                self.qualify(&source(false), addresses, &mut found);
            }
            return found;
        }
        // Something in the file cannot be read. That must not cost the names of all other places,
        // nor the function's own where it is its lines that are unreadable.
        let plain = source(false);
        addresses
            .iter()
            .map(|address| {
                [&own, &plain]
                    .into_iter()
                    .find_map(|source| {
                        let address = Input::VirtOffset(*address);
                        self.symbolizer.symbolize_single(source, address).ok()
                    })
                    .map(|symbol| functions(&symbol, file))
                    .unwrap_or_default()
            })
            .collect()
    }

    /// Debug information has the bare name of a function that no other file can see (`grow`), where
    /// the table of names has the whole (`pool::(anonymous namespace)::grow`).
    fn qualify(&self, plain: &Source<'_>, addresses: &[u64], found: &mut [Vec<Function>]) {
        let bare = |functions: &Vec<Function>| {
            functions
                .last()
                .is_some_and(|function| !function.name.contains("::"))
        };
        let places: Vec<usize> = (0..found.len()).filter(|at| bare(&found[*at])).collect();
        let wanted: Vec<u64> = places.iter().map(|at| addresses[*at]).collect();
        let Ok(full) = self.symbolizer.symbolize(plain, Input::VirtOffset(&wanted)) else {
            return;
        };
        for (at, full) in places.into_iter().zip(&full) {
            if let (Symbolized::Sym(full), Some(function)) = (full, found[at].last_mut())
                && is_longer(&full.name, &function.name)
            {
                function.name = full.name.to_string();
            }
        }
    }
}

/// Whether a linker's name is that of a function which its debug information calls only by the last
/// part of it.
fn is_longer(full: &str, last: &str) -> bool {
    let goes_on = |c: char| c == '_' || c.is_alphanumeric();
    !last.is_empty()
        && full.match_indices(last).any(|(at, _)| {
            full[..at].ends_with("::") && !full[at + last.len()..].starts_with(goes_on)
        })
}

fn functions(symbol: &Symbolized<'_>, file: &Found) -> Vec<Function> {
    let Symbolized::Sym(symbol) = symbol else {
        return Vec::new();
    };
    if symbol.name.is_empty() {
        return Vec::new();
    }
    let inlined = symbol.inlined.iter().rev();
    inlined
        .map(|inlined| function(inlined.name.to_string(), inlined.code_info.as_ref()))
        .chain([function(name(symbol, file), symbol.code_info.as_deref())])
        .collect()
}

/// The function's name, with the distance from its start where only exported names are known, or how
/// far a name reaches is not.
fn name(symbol: &Sym<'_>, file: &Found) -> String {
    let is_sure = symbol.code_info.is_some() || (file.has_symtab && symbol.size.is_some());
    if is_sure || symbol.addr == 0 {
        symbol.name.to_string()
    } else {
        format!("{}+{:#x}", symbol.name, symbol.offset)
    }
}

fn function(name: String, code: Option<&CodeInfo<'_>>) -> Function {
    Function {
        name,
        file: code
            .filter(|code| code.file != OsStr::new(""))
            .map(|code| code.to_path().to_string_lossy().into_owned())
            .unwrap_or_default(),
        line: code.and_then(|code| code.line).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_the_last_part_of_a_longer_one() {
        for (full, last, expected) in [
            ("pool::(anonymous namespace)::grow(int)", "grow", true),
            ("pool::grow_all(int)", "grow", false),
            ("pool::growth(int)", "grow", false),
            ("pool::Arena<int>::Arena(int)", "Arena", true),
            ("grow", "grow", false),
            ("pool::grow", "", false),
        ] {
            assert_eq!(is_longer(full, last), expected, "{full}, {last}");
        }
    }
}
