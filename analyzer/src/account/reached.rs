//! How libraries reached the driver.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::replay::Replay;

/// The way in which one library reached the functions of the driver. One entry per library and way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Reached {
    /// File name, without folder, of the library that looked up the functions.
    pub library: String,
    /// How the functions were looked up: `symbol` (by the dynamic linker), `dlsym` or `cuGetProcAddress`.
    pub way: String,
    /// Number of distinct functions that the library got in this way and that were hooked.
    pub hooks: u64,
}

/// Lists how each library of a capture reached the driver, sorted by library and way.
pub(super) fn reached(replay: &Replay) -> Vec<Reached> {
    let mut ways: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for hook in &replay.names.hooks {
        let library = hook.library.rsplit('/').next().unwrap_or(&hook.library);
        let functions = ways.entry((library, &hook.way)).or_default();
        functions.insert(&hook.function);
    }
    ways.into_iter()
        .map(|((library, way), functions)| Reached {
            library: library.to_owned(),
            way: way.to_owned(),
            hooks: functions.len() as u64,
        })
        .collect()
}
