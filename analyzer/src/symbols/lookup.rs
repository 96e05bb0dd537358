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
            return found.iter().map(|symbol| functions(symbol, file)).collect();
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
