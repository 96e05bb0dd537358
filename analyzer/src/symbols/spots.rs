//! The names of all places of a capture, for embedding.

use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{Definition, ModuleId};

use super::place::{is_recorder, spot};
use super::resolver::{BATCH, Symbols};
use super::search::hexadecimal;
use crate::names::Names;

/// The places of all native stacks of a capture, without the recorder's.
#[derive(Debug, Default)]
pub struct Spots {
    /// Link addresses by module, ascending.
    by_module: BTreeMap<Option<u32>, Vec<u64>>,
}

/// A module with places that have no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nameless {
    /// The module's file name; `None` for code in no module.
    pub module: Option<String>,
    /// The number of its places without a name.
    pub places: u64,
    /// The reason, as text after a colon.
    pub why: String,
}

impl Spots {
    /// Collects the places.
    pub fn of(names: &Names) -> Self {
        let mut spots: BTreeMap<Option<u32>, BTreeSet<u64>> = BTreeMap::new();
        let mut seen = rustc_hash::FxHashSet::default();
        for frame in names.native_stacks.values().flat_map(|(frames, _)| frames) {
            if seen.insert(*frame) && !is_recorder(names, frame) {
                let (module, address) = spot(names, frame);
                spots.entry(module).or_default().insert(address);
            }
        }
        let sorted = spots.into_iter();
        Self {
            by_module: sorted
                .map(|(module, addresses)| (module, addresses.into_iter().collect()))
                .collect(),
        }
    }

    /// The number of places.
    pub fn count(&self) -> u64 {
        self.by_module
            .values()
            .map(|addresses| addresses.len() as u64)
            .sum()
    }

    /// The number of modules.
    pub fn modules(&self) -> u64 {
        self.by_module.keys().flatten().count() as u64
    }

    /// A [`Definition::Symbol`] for each place with a name, by module and address. Modules of other places are added
    /// to `nameless`. Names are looked up lazily.
    pub fn symbols<'a>(
        &'a self,
        names: &'a Names,
        symbols: &'a mut Symbols,
        nameless: &'a mut Vec<Nameless>,
    ) -> impl Iterator<Item = Definition> + 'a {
        symbols.work.add(self.count() as usize);
        let batches = self.by_module.iter().flat_map(|(module, addresses)| {
            addresses.chunks(BATCH).map(move |batch| (*module, batch))
        });
        let mut last = None;
        batches.flat_map(move |(module, batch)| {
            let id = module
                .and_then(|index| names.modules.get(index as usize))
                .map_or(ModuleId(0), |module| module.id);
            let functions = symbols.functions(names, module, batch);
            symbols.work.finish(batch.len());
            let places = functions.iter().filter(|found| found.is_empty()).count() as u64;
            if places > 0 {
                if last != Some(module) {
                    nameless.push(without_names(names, symbols, module));
                    last = Some(module);
                }
                if let Some(nameless) = nameless.last_mut() {
                    nameless.places += places;
                }
            }
            batch
                .iter()
                .zip(functions)
                .filter(|(_, functions)| !functions.is_empty())
                .map(move |(address, functions)| Definition::Symbol {
                    module: id,
                    address: *address,
                    functions,
                })
        })
    }
}

/// Why places of a module have no name. The caller adds their number.
fn without_names(names: &Names, symbols: &mut Symbols, index: Option<u32>) -> Nameless {
    let module = index.and_then(|index| names.modules.get(index as usize));
    let has_file = index.is_some_and(|index| !symbols.files(names, index).is_empty());
    let why = match module {
        None => "generated at run time, and not in a perf map".to_owned(),
        Some(module) if module.build_id.is_empty() => {
            "it has no build id, so its file cannot be identified".to_owned()
        }
        Some(_) if has_file => "its files have no names for them".to_owned(),
        Some(module) => format!(
            "no file has its build id, {}",
            hexadecimal(&module.build_id)
        ),
    };
    Nameless {
        module: module.map(|module| module.basename().to_owned()),
        places: 0,
        why,
    }
}
