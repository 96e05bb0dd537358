//! How libraries reached the driver.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::replay::Replay;

/// A library's way to the driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Reached {
    /// The library that requested the functions.
    pub library: String,
    /// How.
    pub way: String,
    /// How many functions.
    pub hooks: u64,
}

/// How each library of a capture reached the driver.
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
